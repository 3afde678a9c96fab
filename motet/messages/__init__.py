"""Messages: what travels between server and clients, what is done to it on its way, and how replies are checked.

`message.py` has the one form of every message and state: named tensors and numbers. `task.py` says what is asked of a
client and what comes back, `transform.py` what a transform of a reply is (`transforms.py` lists them by name: clip,
noise, compression, mask), `checks.py` decides which replies can be used, and `replies.py` adds them up;
`partial_sums.py` is the form of sums that workers made before. May import config, io and randomness. Start reading in
`message.py`.
"""
