// Package ui looks at the status page in a real browser, a headless Chromium, while plugins of several teams hang, fail and are switched off beside a simulated runtime.
//
// It checks what only a browser knows: how soon a fault is seen, that the page works by keyboard, for a screen reader, in both colour schemes and on a phone, and that it asks
// nobody but the supervisor and runs nothing that a plugin wrote. What it saw is kept as pictures in the folder artefacts.
//
// It is a module of its own, since what drives the browser is for no product. `make e2e-ui` runs it; it needs Chromium.
package ui
