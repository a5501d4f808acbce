use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Most requests and responses fit into this; buffers grow by it where they do not.
const BUFFER: usize = 1_024;
/// So much is gathered before it is sent.
const ENOUGH: usize = 16 * 1_024;

/// Requests and responses as bytes. What is no request is the client's fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages<Q, A>(PhantomData<(Q, A)>);

impl<Q, A> Messages<Q, A> {
    pub(super) const fn new() -> Messages<Q, A> {
        Messages(PhantomData)
    }
}

impl<Q, A> Codec for Messages<Q, A>
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
{
    type Encode = A;
    type Decode = Q;
    type Encoder = Messages<Q, A>;
    type Decoder = Messages<Q, A>;

    fn encoder(&mut self) -> Messages<Q, A> {
        Messages::new()
    }

    fn decoder(&mut self) -> Messages<Q, A> {
        Messages::new()
    }
}

impl<Q, A: Message> Encoder for Messages<Q, A> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, item: A, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buf)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, ENOUGH)
    }
}

impl<Q: Message + Default, A> Decoder for Messages<Q, A> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        Q::decode(buf)
            .map(Some)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, ENOUGH)
    }
}
