package plugin

// reconfigure gives the incarnation in service a new configuration, if it may be configured again and that costs no events; otherwise another incarnation takes its place.
func (m *Machine) reconfigure(restart bool) {
	l := &m.life
	switch {
	case l.want != wantRunning: // the next one is started with it
	case !restart && l.served && m.slow():
		m.replaceRolling()
	case l.phase == Ready && l.inPlace && l.session != 0 && l.next == nil:
		l.reconfigure, l.restartIfNo = true, restart
		m.keepEnds()
		l.patience, l.onePatience, l.tellUntil = m.now.Add(SyncPatience), true, m.now.Add(VanishedLimit)
		m.become(Syncing)
		m.startSync()
	case l.phase == Syncing && l.inPlace && l.next == nil: // when the runtime is there, a call has ended, or the synchronization under way has
		l.reconfigure, l.restartIfNo = true, restart
	case restart:
		m.relaunch()
	default:
		m.replaceRolling()
	}
}

// refusedConfiguration: the plugin goes on with what it had. It returns into service, knowing the truth, before another incarnation is tried with the new configuration.
func (m *Machine) refusedConfiguration() {
	l := &m.life
	switch {
	case l.reconfigure || l.next != nil: // there is a newer one already
	case l.restartIfNo:
		m.relaunch()
		return
	default:
		l.replaceNext = true
	}
	m.startSync()
}
