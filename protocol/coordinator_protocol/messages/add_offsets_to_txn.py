"""AddOffsetsToTxn (key 25), versions 0-4, flexible from 3."""

from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class AddOffsetsToTxnRequest:
    """The body of a request."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


@dataclass(slots=True)
class AddOffsetsToTxnResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)


API = Api(
    key=25,
    first=0,
    last=4,
    flexible=3,
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
)
