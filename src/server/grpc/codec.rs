use prost::Message as _;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::protocol::grpc::messages::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};

/// Most requests and responses fit into this; buffers grow by it where they do not.
const BUFFER: usize = 1_024;
/// So much is gathered before it is sent.
const ENOUGH: usize = 16 * 1_024;

/// Requests and responses as bytes. What is no request is the client's fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages;

impl Codec for Messages {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = Messages;
    type Decoder = Messages;

    fn encoder(&mut self) -> Messages {
        Messages
    }

    fn decoder(&mut self) -> Messages {
        Messages
    }
}

impl Encoder for Messages {
    type Item = RateLimitResponse;
    type Error = Status;

    fn encode(&mut self, item: RateLimitResponse, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buf)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, ENOUGH)
    }
}

impl Decoder for Messages {
    type Item = RateLimitRequest;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<RateLimitRequest>, Status> {
        RateLimitRequest::decode(buf)
            .map(Some)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, ENOUGH)
    }
}
