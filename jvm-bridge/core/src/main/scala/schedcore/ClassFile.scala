package schedcore

import java.io.{ByteArrayInputStream, DataInputStream}
import java.lang.reflect.Modifier

/**
 * A compiled class as its file describes it. Reading the file loads no class and runs none of its code.
 *
 * Names are the JVM's (`java/lang/Object`). A member's key is its name and descriptor: `size()I` is a method, `count:I` a
 * field. Java Virtual Machine Specification, chapter 4.
 */
final class ClassFile private (
    val name: String,
    val parents: Array[String],
    val members: java.util.Map[String, Integer],
    references: () => Array[ClassFile.Reference]) {

  /** The classes and members that its code and signatures name, itself included. */
  lazy val refersTo: Array[ClassFile.Reference] = references()
}

object ClassFile {
  /** @param member key of a member; null where the class alone is named */
  final case class Reference(owner: String, member: String)

  def parse(bytes: Array[Byte]): ClassFile = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    in.skipBytes(8) // magic number, version
    val pool = new Pool(in)
    in.skipBytes(2) // access flags
    val name = pool.className(in.readUnsignedShort())
    val superclass = in.readUnsignedShort()
    val interfaces = Array.fill(in.readUnsignedShort())(pool.className(in.readUnsignedShort()))
    val members = new java.util.HashMap[String, Integer]
    readMembers(in, pool, ":", members)
    readMembers(in, pool, "", members)
    val parents = if (superclass == 0) interfaces else pool.className(superclass) +: interfaces
    new ClassFile(name, parents, members, () => pool.references)
  }

  /** Whether a class of another file can override such a member. */
  def isOverridable(flags: Int): Boolean = !Modifier.isFinal(flags) && !isOwn(flags)

  /** Whether the member belongs to the class alone, and not to those below it. */
  def isOwn(flags: Int): Boolean = Modifier.isPrivate(flags) || Modifier.isStatic(flags)

  private def readMembers(in: DataInputStream, pool: Pool, separator: String, into: java.util.Map[String, Integer]): Unit = {
    var left = in.readUnsignedShort()
    while (left > 0) {
      val flags = in.readUnsignedShort()
      into.put(pool.text(in.readUnsignedShort()) + separator + pool.text(in.readUnsignedShort()), flags)
      var attributes = in.readUnsignedShort()
      while (attributes > 0) {
        in.skipBytes(2)
        in.skipBytes(in.readInt())
        attributes -= 1
      }
      left -= 1
    }
  }

  /** The constant pool, §4.4. An entry is its text, or the indices of other entries. */
  private final class Pool(in: DataInputStream) {
    private val size = in.readUnsignedShort()
    private val tags = new Array[Byte](size)
    private val texts = new Array[String](size)
    private val indices = new Array[Int](size)
    private var at = 1
    while (at < size) {
      tags(at) = in.readByte()
      tags(at) match {
        case Utf8 => texts(at) = in.readUTF()
        case 5 | 6 => in.skipBytes(8); at += 1 // long and double take two entries
        case 7 | 8 | 16 | 19 | 20 => indices(at) = in.readUnsignedShort()
        case 15 => in.skipBytes(3)
        case _ => indices(at) = in.readInt()
      }
      at += 1
    }

    def text(index: Int): String = texts(index)
    def className(index: Int): String = texts(indices(index))

    def references: Array[Reference] = (1 until size).iterator.collect {
      case i if tags(i) == ClassTag => Reference(className(i), null)
      case i if tags(i) >= FieldTag && tags(i) <= InterfaceMethodTag =>
        val nameAndType = indices(indices(i) & 0xffff)
        val separator = if (tags(i) == FieldTag) ":" else ""
        Reference(className(indices(i) >>> 16), text(nameAndType >>> 16) + separator + text(nameAndType & 0xffff))
    }.toArray
  }

  private final val Utf8 = 1
  private final val ClassTag = 7
  private final val FieldTag = 9
  private final val InterfaceMethodTag = 11
}
