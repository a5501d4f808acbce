//! HTTP/2 by hand, for what no client would send.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::kit::Addr;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that has greeted.
pub(crate) fn connect(socket: &Path) -> impl Read + Write + use<> {
    let mut stream = Addr::from(socket).connect().unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of a call, as HPACK has them without its tables.
pub(crate) fn fields() -> Vec<u8> {
    let mut fields = vec![0x83, 0x86];
    let mut literal = |name: u8, value: &str| {
        fields.push(name);
        fields.push(u8::try_from(value.len()).unwrap());
        fields.extend(value.as_bytes());
    };
    literal(0x04, tidegate::protocol::grpc::SHOULD_RATE_LIMIT);
    literal(0x01, "localhost");
    fields.extend([0x0f, 0x10]);
    let kind = b"application/grpc";
    fields.push(u8::try_from(kind.len()).unwrap());
    fields.extend(kind);
    fields
}

/// The next frame: its kind, its stream and its payload.
pub(crate) fn read(stream: &mut impl Read) -> io::Result<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    let on = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Ok((head[3], on, payload))
}

/// The error code of the GOAWAY that ends the connection; `None` where it ends without.
pub(crate) fn goaway(stream: &mut impl Read) -> Option<u32> {
    let mut code = None;
    while let Ok((kind, _, payload)) = read(stream) {
        if kind == GOAWAY {
            code = payload[4..8].try_into().ok().map(u32::from_be_bytes);
        }
    }
    code
}
