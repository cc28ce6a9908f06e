"""InitProducerId (key 22), versions 0-6, flexible from 2."""

from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class InitProducerIdRequest:
    """The body of a request."""

    transactional_id: str | None = field(STRING, nullable=0)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, since=3, default=-1)
    producer_epoch: int = field(INT16, since=3, default=-1)
    enable2_pc: bool = field(BOOL, since=6)
    keep_prepared_txn: bool = field(BOOL, since=6)


@dataclass(slots=True)
class InitProducerIdResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)
    ongoing_txn_producer_id: int = field(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = field(INT16, since=6, default=-1)


API = Api(
    key=22,
    first=0,
    last=6,
    flexible=2,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
)
