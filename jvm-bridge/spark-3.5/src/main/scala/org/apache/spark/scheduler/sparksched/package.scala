package org.apache.spark.scheduler

package object sparksched extends schedcore.Scala212
