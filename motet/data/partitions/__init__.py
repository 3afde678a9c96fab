"""Partitions: which rows go to which client.

`registry.py` lists the ways by name (`dirichlet:0.3`) and has the short ones, `dirichlet.py` and `pflbed.py` the longer
ones, `request.py` what each is given. `assignment.py` does the whole: it sets the common test set aside, has the rest
dealt, splits each client's rows and chooses new clients. May import data.readers.raw, config and io. Start reading in
`assignment.py`.
"""
