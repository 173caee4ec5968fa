// Package stream encodes and reads the bodies of objects: content is compressed with zstd, then encrypted with age, and
// the result is digested. It does not know what a body holds, nor the header that describes it.
//
//	Sealer, Opener          write and read a body; Facts are what a reader must know of it
//	WriteFrame, ReadFrame   cut a content into checksummed frames
//	Fanout, ReadAhead       let the layers of one stream work side by side
package stream
