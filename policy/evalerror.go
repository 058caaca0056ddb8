package policy

import (
	"errors"
	"fmt"
	"strings"
)

// What can be told of an expression that could not be evaluated. CEL's own messages quote what the expression looked at, such as the value of a variable, and reach logs, the audit and whoever
// may read explanations; these quote nothing.
var (
	errNoSuchKey  = errors.New("no such key")
	errBadIndex   = errors.New("index out of range")
	errBadRegexp  = errors.New("bad regular expression")
	errCostLimit  = fmt.Errorf("it costs more than the limit of %d", conditionCostLimit)
	errWrongType  = errors.New("type error")
	errArithmetic = errors.New("overflow or division by zero")
	errEvaluation = errors.New("the evaluation failed")
)

// withoutValue is the one of the errors above that says what kind of error CEL returned.
func withoutValue(err error) error {
	text := err.Error()
	starts := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case starts("no such key"):
		return errNoSuchKey
	case starts("index out of bounds", "index '", "invalid index"):
		return errBadIndex
	case starts("error parsing regexp"):
		return errBadRegexp
	case starts("operation cancelled: actual cost limit exceeded"):
		return errCostLimit
	case starts("no such overload", "unsupported conversion", "type conversion error", "unsupported type conversion", "unsupported index type"):
		return errWrongType
	case starts("integer overflow", "unsigned integer overflow", "duration overflow", "timestamp overflow", "division by zero", "modulus by zero"):
		return errArithmetic
	default:
		return errEvaluation
	}
}
