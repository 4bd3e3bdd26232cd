"""What every test relies on, however pytest was started."""

import signal

# nohup, and shells that start a job in the background, let it ignore SIGINT, and processes that tests start would
# inherit that: those that test an interrupt would never be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)
