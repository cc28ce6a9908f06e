package main

import (
	"encoding/binary"
	"fmt"
)

// The APIs that are asked, in the versions of a current client.
const (
	offsetCommit    = 8
	offsetFetch     = 9
	findCoordinator = 10
	joinGroup       = 11
	heartbeat       = 12
	syncGroup       = 14
	describeGroups  = 15
	apiVersions     = 18
	createTopics    = 19
)

var versions = map[int16]int16{
	offsetCommit:    8,
	offsetFetch:     8,
	findCoordinator: 4,
	joinGroup:       9,
	heartbeat:       4,
	syncGroup:       5,
	describeGroups:  5,
	apiVersions:     3,
	createTopics:    5,
}

// All of these versions are flexible, so every response header but this one's ends with tags.
const withoutTags = apiVersions

// Where the correlation id lies in a frame, its length included.
const (
	idInRequest  = 8
	idInResponse = 4
)

const clientID = "load"

// writer appends the protocol's flexible encoding.
type writer struct{ buf []byte }

func (w *writer) int8(v int8)   { w.buf = append(w.buf, byte(v)) }
func (w *writer) int16(v int16) { w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(v)) }
func (w *writer) int32(v int32) { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v)) }
func (w *writer) int64(v int64) { w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v)) }
func (w *writer) noTags()       { w.buf = append(w.buf, 0) }
func (w *writer) null()         { w.buf = append(w.buf, 0) }
func (w *writer) count(n int)   { w.buf = binary.AppendUvarint(w.buf, uint64(n+1)) }

func (w *writer) bytes(v []byte) {
	w.count(len(v))
	w.buf = append(w.buf, v...)
}

func (w *writer) text(v string) {
	w.count(len(v))
	w.buf = append(w.buf, v...)
}

// framed puts the length in front of what was written behind four bytes left for it.
func (w *writer) framed() []byte {
	binary.BigEndian.PutUint32(w.buf, uint32(len(w.buf)-4))
	return w.buf
}

// request makes a frame with correlation id 0; body writes what follows the header.
func request(api int16, body func(*writer)) []byte {
	w := &writer{buf: make([]byte, 4, 256)}
	w.int16(api)
	w.int16(versions[api])
	w.int32(0)
	w.int16(int16(len(clientID)))
	w.buf = append(w.buf, clientID...)
	w.noTags()
	body(w)
	return w.framed()
}

// response makes the frame a server has to answer, with correlation id 0.
func response(body func(*writer)) []byte {
	w := &writer{buf: make([]byte, 4, 256)}
	w.int32(0)
	w.noTags()
	body(w)
	return w.framed()
}

// reader reads what writer writes; after the first failure everything is zero and err is set.
type reader struct {
	buf []byte
	at  int
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.buf)-r.at) {
		r.err = fmt.Errorf("an answer of %d bytes ends within a field at %d", len(r.buf), r.at)
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.buf[r.at-n : r.at]
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.buf[r.at:])
	if n <= 0 || v > 1<<31 {
		n = -1
	}
	if r.take(n) == nil {
		return 0
	}
	return int(v)
}

func (r *reader) count() int    { return r.uvarint() - 1 }
func (r *reader) bytes() []byte { return r.take(max(r.count(), 0)) }
func (r *reader) text() string  { return string(r.bytes()) }

func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.uvarint()
		r.take(r.uvarint())
	}
}

// refused is an error code where 0 was expected.
type refused struct {
	what string
	code int16
}

func (r refused) Error() string { return fmt.Sprintf("%s: error code %d", r.what, r.code) }

func (r *reader) noError(what string) {
	if code := r.int16(); code != 0 && r.err == nil {
		r.err = refused{what, code}
	}
}
