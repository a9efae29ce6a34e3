package org.apache.spark.sql

package object sparksched extends schedcore.Scala212
