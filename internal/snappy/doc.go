// Package snappy packs and unpacks values in the block form of the snappy format, as servers keep compressed documents:
// https://github.com/google/snappy/blob/main/format_description.txt
//
//	block = DecodedLen as a varint, element...
//	element = literal: bytes as they are | copy: length and offset of bytes that were unpacked before
//
// Encoder.Append makes a block. A reader asks DecodedLen first, holds it against its limit, and lets Decode fill memory
// of that length. Both keep no memory of the caller's.
//
// Never here: the framed form of the format, limits, and what the client or the mock does with a value.
package snappy
