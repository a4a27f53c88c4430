"""In the place of the agent."""

import signal

from note import started

started("agent")
while True:
    signal.pause()
