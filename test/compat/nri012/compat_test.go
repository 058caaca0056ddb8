package compat

import (
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/compat/body"
)

func TestTheSupervisorServesThisVersionOfNRI(t *testing.T) { body.Run(t) }
