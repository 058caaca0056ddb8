package store

import (
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// message is all that protobuf generates for a type, and the pointer to it.
type message[T any] interface {
	*T
	proto.Message
}

// body is the last known message of a pod or container. While there are events about it, it is kept as it came; when it has been quiet for a while it is packed: only its encoding is kept, one
// allocation of the exact size, which is a third of what the decoded message takes. At least one of both is there. Neither is ever written into.
type body[T any, M message[T]] struct {
	msg M      // nil when packed
	raw []byte // the encoding of msg; nil when msg has not been packed since it came
	// warm says that it is in the store's list of what is to be packed, touched that something came about it since the last Pack.
	warm, touched bool
}

type (
	podBody = body[api.PodSandbox, *api.PodSandbox]
	ctrBody = body[api.Container, *api.Container]
)

// get returns the message, decoded anew when it is packed.
func (b *body[T, M]) get() M {
	if b.msg != nil {
		return b.msg
	}
	return unpack[T, M](b.raw)
}

// unpack decodes what was encoded here, or had been decoded before, so that it cannot fail.
func unpack[T any, M message[T]](raw []byte) M {
	m := M(new(T))
	_ = proto.Unmarshal(raw, m)
	return m
}

// set puts a message in place of what was known.
func (b *body[T, M]) set(m M) { b.msg, b.raw, b.touched = m, nil, true }

// thaw keeps the message m that raw was decoded to, unless what is known is another by now.
func (b *body[T, M]) thaw(raw []byte, m M) {
	if b.msg == nil && same(b.raw, raw) {
		b.msg, b.touched = m, true
	}
}

// same reports whether both are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// text is a string field of the message; number is that of the field, get what reads it from the decoded message.
func (b *body[T, M]) text(number protowire.Number, get func(M) string) string {
	if b.msg != nil {
		return get(b.msg)
	}
	for raw := b.raw; len(raw) > 0; {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			break
		}
		raw = raw[n:]
		if num == number && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(raw)
			return string(v)
		}
		if n = protowire.ConsumeFieldValue(num, typ, raw); n < 0 {
			break
		}
		raw = raw[n:]
	}
	return ""
}

// The numbers of the fields that are read without decoding the others, by NRI's api.proto.
const (
	podName, podUID, podNamespace = 2, 3, 4
	containerName                 = 3
)

func (p *pod) name() string       { return p.text(podName, (*api.PodSandbox).GetName) }
func (p *pod) namespace() string  { return p.text(podNamespace, (*api.PodSandbox).GetNamespace) }
func (p *pod) uid() string        { return p.text(podUID, (*api.PodSandbox).GetUid) }
func (c *container) name() string { return c.text(containerName, (*api.Container).GetName) }

// Names are what a pod and a container are called.
type Names struct{ Namespace, Pod, PodUID, Container string }

// Names returns what is known of the names, without decoding what is packed. False = unknown.
func (s *Store) Names(ref Ref) (Names, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, c := s.findLocked(ref)
	if p == nil || c == nil && !ref.IsPod() {
		return Names{}, false
	}
	n := Names{Namespace: p.namespace(), Pod: p.name(), PodUID: p.uid()}
	if c != nil {
		n.Container = c.name()
	}
	return n, true
}

// parcel is a record of the store, as far as packing it goes. All but a message itself is under the store's lock.
type parcel interface {
	// decoded reports whether there is a message.
	decoded() bool
	// due returns the message that is to be packed, with its encoding if that is known. Not yet: something came about it since the last time. Both nil: there is none any more.
	due() (m proto.Message, raw []byte, yet bool)
	// pack puts the encoding in the message's place, unless something came about it meanwhile, and reports whether it did.
	pack(m proto.Message, raw []byte) bool
	// rest says that it is in no list of what is to be packed.
	rest()
}

func (b *body[T, M]) decoded() bool { return b.msg != nil }

func (b *body[T, M]) due() (m proto.Message, raw []byte, yet bool) {
	switch {
	case b.msg == nil:
		return nil, nil, true
	case b.touched:
		b.touched = false
		return nil, nil, false
	}
	return b.msg, b.raw, true
}

// release lets go of the message of what is forgotten, since the record itself may be in the list of what is to be packed.
func (b *body[T, M]) release() { b.msg, b.raw, b.touched = nil, nil, false }

func (b *body[T, M]) pack(m proto.Message, raw []byte) bool {
	if b.touched || proto.Message(b.msg) != m {
		return false
	}
	b.msg, b.raw = nil, raw
	return true
}

func (b *body[T, M]) rest() { b.warm = false }

// warmLocked takes a record into the list of what is to be packed.
func (s *Store) warmLocked(p parcel, listed *bool) {
	if !*listed {
		*listed = true
		s.warm = append(s.warm, p)
	}
}

// Warm is how many pods and containers the next Pack may have to encode: those that are gone are not among them.
func (s *Store) Warm() (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.warm {
		if p.decoded() {
			n++
		}
	}
	return n
}

// packedAtOnce and bytesAtOnce are after how many messages and bytes Pack pauses: a third of a millisecond of encoding.
const packedAtOnce, bytesAtOnce = 64, 256 << 10

// Pack keeps only the encoding of what nothing came about since the Pack before, and returns how many bytes that made. Call it every second or two: what events are about is then decoded, and what
// just lives takes little memory. Its cost depends on how many pods and containers there were events about. It holds the lock only for moments, and calls pause, if that is not nil, without it and
// again and again while there is more to encode.
func (s *Store) Pack(pause func()) (bytes int) {
	type job struct {
		parcel
		msg proto.Message
		raw []byte
	}
	var jobs []job
	s.mu.Lock()
	stay := s.warm[:0]
	for _, p := range s.warm {
		switch m, raw, yet := p.due(); {
		case !yet:
			stay = append(stay, p)
		case m == nil:
			p.rest()
		default:
			jobs = append(jobs, job{p, m, raw})
		}
	}
	clear(s.warm[len(stay):])
	s.warm = stay
	if len(stay) == 0 {
		s.warm = nil
	}
	s.mu.Unlock()
	messages, size := 0, 0 // since the last pause
	for i := range jobs {
		j := &jobs[i]
		if j.raw != nil {
			continue
		}
		if pause != nil && (messages == packedAtOnce || size >= bytesAtOnce) {
			pause()
			messages, size = 0, 0
		}
		raw, err := proto.Marshal(j.msg)
		if err == nil { // else it holds what cannot be encoded, and stays as it is
			j.raw = raw
		}
		messages, size = messages+1, size+len(raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		switch {
		case len(j.raw) == 0:
			j.rest()
		case j.pack(j.msg, j.raw):
			j.rest()
			bytes += len(j.raw)
		default:
			s.warm = append(s.warm, j.parcel)
		}
	}
	return bytes
}
