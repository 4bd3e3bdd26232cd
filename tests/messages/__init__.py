"""Ways to provoke each message of belated, a module for each part: `tests/test_messages.py` compares their wording.

A module has `CASES`: the name of a case, and a function of a temporary folder that raises, returns or prints a message.
"""
