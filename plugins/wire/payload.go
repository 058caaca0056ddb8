package wire

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"
)

// Payload shares the encoding of one request among the plugins that get it. The request must not change once it was sent to the first. The zero value is ready for use, and so is nil, which shares
// nothing. Safe for concurrent use.
type Payload struct {
	mu      sync.Mutex
	of      proto.Message // of the call before
	encoded []byte        // nil until it is known that of is sent more than once
}

// PayloadKey is the key of the *Payload among the values of the context that a request is sent with.
type PayloadKey struct{}

// PayloadOf returns the context's Payload; nil if it has none.
func PayloadOf(ctx context.Context) *Payload {
	p, _ := ctx.Value(PayloadKey{}).(*Payload)
	return p
}

// WithPayload returns a context with the Payload.
func WithPayload(ctx context.Context, p *Payload) context.Context {
	return context.WithValue(ctx, PayloadKey{}, p)
}

// Append appends the encoding of m, whose size is the one that proto.Size has just returned. An error is that of the encoder.
func (p *Payload) Append(b []byte, m proto.Message) ([]byte, error) {
	if p == nil {
		return encode(b, m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of != m { // it may be the only time
		p.of, p.encoded = m, nil
		return encode(b, m)
	}
	if p.encoded == nil {
		var err error
		if p.encoded, err = encode(make([]byte, 0, proto.Size(m)), m); err != nil {
			return b, err
		}
	}
	return append(b, p.encoded...), nil
}

// Size is proto.Size, which need not be asked twice.
func (p *Payload) Size(m proto.Message) int {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of == m && p.encoded != nil {
			return len(p.encoded)
		}
	}
	return proto.Size(m)
}

func encode(b []byte, m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
}
