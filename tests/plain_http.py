"""One request over plain HTTP, as httpx2's own functions make it, without the certificates that those read each time.

Reading them costs 35 ms of CPU for each request (measured), which a test that polls spends twenty times a second.
"""

from __future__ import annotations

from functools import partial

import httpx2

get = partial(httpx2.get, verify=False)
post = partial(httpx2.post, verify=False)
request = partial(httpx2.request, verify=False)
delete = partial(httpx2.delete, verify=False)
stream = partial(httpx2.stream, verify=False)
