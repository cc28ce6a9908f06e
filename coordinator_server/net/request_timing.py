"""Measures the time of requests: those of one chunk together."""

from collections import Counter

from coordinator_server.observe.counters import Counters


def measure(served: list[int], seconds: float, counters: Counters) -> None:
    """Note for these API keys, which are cleared, that each has taken its share of the time."""
    share = seconds / len(served)
    apis = counters.apis
    if len(served) == 1:
        apis[served[0]].seconds.observe(share)
    else:
        for api_key, times in Counter(served).items():
            apis[api_key].seconds.observe(share, times)
    served.clear()
