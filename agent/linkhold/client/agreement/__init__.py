"""How the ranks of one job agree: at the same step, on the same answer, for next to nothing.

Each rank puts its wish into a small vector of whole numbers; their maximum over all ranks,
made at a step boundary, is the same everywhere; every rank reads the same answer from it.

- :mod:`~linkhold.client.agreement.vector`: a wish as numbers, the numbers as an answer (pure)
- :mod:`~linkhold.client.agreement.cadence`: how many steps lie between two agreements (pure)
- :mod:`~linkhold.client.agreement.asking`: what a rank wishes, and what it remembers (pure)
- :mod:`~linkhold.client.agreement.rounds`: one agreement after the other, and their time
- :mod:`~linkhold.client.agreement.torch_group`: the reduction, on a gloo group of its own
"""
