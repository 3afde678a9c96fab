"""Training: what one client does with its own data, whatever the method.

`client.py` is a client as a method sees it, `local.py` the local loop over batches, `flat_weights.py` a model as one
vector, `batched_clients.py` several clients as one computation, `adaptation.py` the adaptation of a new client,
`losses.py` the balanced losses, `randomness.py` every random draw, and `personal_model_policy.py` decides which model
of a client is its personal model. May import nets, data, messages, config and io. Start reading in `local.py`.
"""
