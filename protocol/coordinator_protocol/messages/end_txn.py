"""EndTxn (key 26), versions 0-5, flexible from 3."""

from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class EndTxnRequest:
    """The body of a request."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


@dataclass(slots=True)
class EndTxnResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, since=5, default=-1)
    producer_epoch: int = field(INT16, since=5, default=-1)


API = Api(
    key=26,
    first=0,
    last=5,
    flexible=3,
    request=EndTxnRequest,
    response=EndTxnResponse,
)
