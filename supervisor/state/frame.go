package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
)

// The file begins with a line that names its layout. Then come frames, one for
// each change, in the order of the changes:
//
//	mark     4 bytes, to find the next frame after a damaged one
//	length   4 bytes, high byte first, of the body
//	checksum 4 bytes, high byte first, CRC-32C of the body
//	body     kind, 1 byte; length of the key, uvarint; key; value
//
// The kind tells what the key means, and whether the value is set or deleted.
const (
	headerPrefix = "nri-supervisor state "
	header       = headerPrefix + "1\n"
	// mark is no text in UTF-8, as keys and values are.
	mark      = "\xfenr\xff"
	frameHead = len(mark) + 8
	// maxBody bounds what is taken for a frame.
	maxBody = 1 + binary.MaxVarintLen64 + maxKeySize + MaxValueSize
)

const (
	kindRecord        = 'r'
	kindRecordDeleted = 'R'
	kindManual        = 'm'
	kindManualDeleted = 'M'
	kindValue         = 'v'
	kindValueDeleted  = 'V'
)

// change is one entry on its way to the disk or back.
type change struct {
	kind  byte
	key   string
	value []byte // nil = deleted
	seq   uint64 // in memory only
}

// appendFrame encodes a change.
func appendFrame(to []byte, c change) []byte {
	body := make([]byte, 0, 1+binary.MaxVarintLen64+len(c.key)+len(c.value))
	body = append(body, c.kind)
	body = binary.AppendUvarint(body, uint64(len(c.key)))
	body = append(body, c.key...)
	body = append(body, c.value...)
	to = append(to, mark...)
	to = binary.BigEndian.AppendUint32(to, uint32(len(body))) //nolint:gosec // keys and values are bounded, see maxBody
	to = binary.BigEndian.AppendUint32(to, checksum(body))
	return append(to, body...)
}

func checksum(body []byte) uint32 {
	return crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
}

// decoded is what a file holds.
type decoded struct {
	changes []change
	// end is where the next frame goes: behind the last good one.
	end int
	// damaged tells what is wrong, apart from an end that a crash explains: a file is never seen without its first line. Empty = nothing.
	damaged string
	// foreign is true when nothing of it can be ours to read.
	foreign bool
}

// decode reads all frames, and goes on behind damaged ones.
func decode(file []byte) decoded {
	if len(file) < len(header) && strings.HasPrefix(header, string(file)) { // ours are never that short: see disk.rewrite
		return decoded{foreign: true, damaged: fmt.Sprintf("it ends after %d bytes", len(file))}
	}
	var d decoded
	rest, ok := bytes.CutPrefix(file, []byte(header))
	if !ok {
		line, _, _ := bytes.Cut(file[:min(len(file), 64)], []byte("\n"))
		if layout, ours := bytes.CutPrefix(line, []byte(headerPrefix)); ours {
			return decoded{foreign: true, damaged: fmt.Sprintf("its layout is %q, this program knows %q", layout, header[len(headerPrefix):len(header)-1])}
		}
		d.damaged, rest = "it does not begin as a state does", file
	}
	d.end = len(file) - len(rest)
	lost := 0
	for len(rest) > 0 {
		c, size, torn := decodeFrame(rest)
		if size > 0 {
			d.changes = append(d.changes, c)
			rest = rest[size:]
			d.end = len(file) - len(rest)
			continue
		}
		if torn {
			break // written in part, by a crash
		}
		lost++
		next := bytes.Index(rest[1:], []byte(mark))
		if next < 0 {
			break
		}
		rest = rest[1+next:]
	}
	if lost > 0 && d.damaged == "" {
		d.damaged = fmt.Sprintf("%d places in it are damaged", lost)
	}
	return d
}

// decodeFrame reads the frame at the beginning. It gives size 0 if there is none,
// and torn if there may have been one whose end never reached the disk.
func decodeFrame(b []byte) (c change, size int, torn bool) {
	if len(b) < frameHead {
		return c, 0, strings.HasPrefix(mark, string(b[:min(len(b), len(mark))])) || zeroes(b)
	}
	if string(b[:len(mark)]) != mark {
		return c, 0, zeroes(b)
	}
	length := int(binary.BigEndian.Uint32(b[len(mark):]))
	sum := binary.BigEndian.Uint32(b[len(mark)+4:])
	if length > maxBody {
		return c, 0, false
	}
	if len(b) < frameHead+length {
		return c, 0, !bytes.Contains(b[1:], []byte(mark))
	}
	body := b[frameHead : frameHead+length]
	if checksum(body) != sum || !c.decodeBody(body) {
		return c, 0, zeroes(b[frameHead:])
	}
	return c, frameHead + length, false
}

func (c *change) decodeBody(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	length, n := binary.Uvarint(body[1:])
	if n <= 0 || length > maxKeySize || int(length) > len(body)-1-n {
		return false
	}
	c.kind, body = body[0], body[1+n:]
	c.key, body = string(body[:length]), body[length:]
	switch c.kind {
	case kindRecord, kindManual, kindValue:
		c.value = append([]byte{}, body...)
		return true
	case kindRecordDeleted, kindManualDeleted, kindValueDeleted:
		return true
	default:
		return false
	}
}

// zeroes tells whether there is nothing but zeroes, which is what a file
// system puts where data did not make it to the disk.
func zeroes(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// keyOf joins the ids of a container. No id holds a zero byte.
func keyOf(pod, container string) string { return pod + "\x00" + container }
