package object schedcore extends schedcore.Scala212
