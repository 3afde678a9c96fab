"""Input and output that every room uses: the lowest room, which may import nothing but `errors`.

`files.py` writes files that survive a kill, `json_models.py` is the base of every JSON format, `hashed_files.py` names
files by their content, `locks.py` lets one process write a folder. `plugins.py` and `user_code.py` load a user's Python
by name, `user_paths.py` checks the paths that users give, `text.py` makes foreign text printable, `memory_limits.py`
refuses what does not fit, `malloc.py` tunes the C library. Start reading in `files.py`.
"""
