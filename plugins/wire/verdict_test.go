package wire_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

func TestOnlyCodeAndPrefixTogetherAreAVerdict(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want string // part of the decoded error's text
		same bool   // the error is returned as it came
	}{
		"no error":                  {nil, "", true},
		"no status":                 {errors.New(wire.RejectPrefix + "x"), "", true},
		"the code alone":            {status.Error(wire.RejectCode, "operation not permitted"), "", true},
		"the prefix alone":          {status.Error(codes.Unknown, wire.RejectPrefix+"x"), "", true},
		"a rejection":               {status.Error(wire.RejectCode, wire.RejectPrefix+"x"), "rejected by plugin: x", false},
		"an aborted call":           {status.Error(wire.NotInterestedCode, "aborted"), "", true},
		"not interested":            {status.Error(wire.NotInterestedCode, wire.NotInterestedPrefix+`{"scope":"pod"}`), `{"scope":"pod"}`, false},
		"not interested, later SDK": {status.Error(wire.NotInterestedCode, wire.NotInterestedPrefix+`{"scope":"pod","x":1}`), `{"scope":"pod"}`, false},
		"no JSON":                   {status.Error(wire.NotInterestedCode, wire.NotInterestedPrefix+`{`), "decode", false},
		"an unknown scope":          {status.Error(wire.NotInterestedCode, wire.NotInterestedPrefix+`{"scope":"node"}`), `unknown scope "node"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := wire.Decode(tt.err)
			if tt.same {
				if !errors.Is(got, tt.err) || got != nil && got.Error() != tt.err.Error() {
					t.Errorf("got %v", got)
				}
				return
			}
			if got == nil || !strings.Contains(got.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", got, tt.want)
			}
		})
	}
}

func FuzzDecodeNeverLosesAnError(f *testing.F) {
	f.Add(uint32(wire.RejectCode), wire.RejectPrefix+"no")
	f.Add(uint32(wire.NotInterestedCode), wire.NotInterestedPrefix+`{"pods":["a"]}`)
	f.Add(uint32(wire.NotInterestedCode), wire.NotInterestedPrefix)
	f.Add(uint32(2), "")
	f.Fuzz(func(t *testing.T, code uint32, message string) {
		if code == 0 {
			return
		}
		if wire.Decode(status.Error(codes.Code(code), message)) == nil {
			t.Error("the error is gone")
		}
	})
}
