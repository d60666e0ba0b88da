"""Settings of all tests.

Property tests try the same examples in every run, so that a failure is a change's own fault. For new examples:
`make test ARGS=--hypothesis-profile=explore`.
"""

from __future__ import annotations

from hypothesis import settings

# No deadline: how long an example takes says more about the machine's other work than about the code.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("same")
