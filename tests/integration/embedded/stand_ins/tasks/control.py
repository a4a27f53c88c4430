"""In the place of the control process."""

import signal

from note import started

started("control")
while True:
    signal.pause()
