"""The Python interface of Motet: what `import motet` offers, and what the command line calls.

`choices` gives functions the short names as keywords, `result` and `comparison` hold what a user gets back, `running`,
`studies`, `models` and `pages` have the functions. This room may import all others but `cli`. Start at `running.py`.
"""
