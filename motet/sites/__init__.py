"""Real sites: a coordinator without data, and sites that keep theirs; Flower carries the messages, Motet decides.

`certificates.py` makes keys, `wire.py` turns a task into a signed message and back, `flower.py` is the one module that
knows Flower (`superlink.py` is its server in a process of its own). At the coordinator `serve.py` runs everything and
`engine.py` asks the sites; at a site `join.py` is the process, `at_site.py` answers, `consent.py` decides what may
leave, `disk.py` keeps private states, `own_model.py` makes the site's model. May import everything but the command line
and Python's face. Start reading in `serve.py`, then in `join.py`.
"""
