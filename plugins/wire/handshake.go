package wire

import goplugin "github.com/hashicorp/go-plugin"

const (
	// MagicCookieKey is the environment variable that tells a plugin that it was started by nri-supervisor. It is no security measure.
	MagicCookieKey = "NRI_SUPERVISOR_PLUGIN"
	// MagicCookieValue is the value that it then has.
	MagicCookieValue = "5b1c7f0e8a4d4be39ad2f0c4d1b7e6a86f3e2d9c0a5b4817"
	// ProtocolVersion is the version of this contract, go-plugin's application protocol version.
	ProtocolVersion = 1
	// ControlPlugin is the name under which go-plugin dispenses the control service.
	ControlPlugin = "control"
	// EnvLogLevel carries the level to log at from the start: trace, debug, info, warn or error.
	EnvLogLevel = "NRI_SUPERVISOR_LOG_LEVEL"
)

// Handshake returns go-plugin's handshake configuration, the same on both sides.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   MagicCookieKey,
		MagicCookieValue: MagicCookieValue,
	}
}
