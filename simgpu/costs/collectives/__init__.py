"""Collective algorithms: one function each, (cluster, members, kind, bytes) to a latency and a load on links."""
