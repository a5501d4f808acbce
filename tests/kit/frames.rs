//! HTTP/2 by hand, for what no client would send.

use std::io::{self, Read, Write};
use std::path::Path;

use super::Addr;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const GET: u8 = 0x82;
pub const POST: u8 = 0x83;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that has greeted.
pub fn connect(socket: &Path) -> impl Read + Write + use<> {
    let mut stream = Addr::from(socket).connect().unwrap();
    greet(&mut stream);
    stream
}

pub fn greet(stream: &mut impl Write) {
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of a call of gRPC.
pub fn fields() -> Vec<u8> {
    let path = tidegate::protocol::grpc::SHOULD_RATE_LIMIT;
    let mut fields = asking(POST, path, "localhost");
    fields.extend([0x0f, 0x10]);
    let kind = b"application/grpc";
    fields.push(u8::try_from(kind.len()).unwrap());
    fields.extend(kind);
    fields
}

/// The fields of a request, as HPACK has them without its tables; `method` as in the static
/// one.
pub fn asking(method: u8, path: &str, authority: &str) -> Vec<u8> {
    let mut fields = vec![method, 0x86];
    for (name, value) in [(0x04, path), (0x01, authority)] {
        fields.push(name);
        fields.push(u8::try_from(value.len()).unwrap());
        fields.extend(value.as_bytes());
    }
    fields
}

/// A frame that was read.
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// The next frame.
pub fn read(stream: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
        payload,
    })
}

/// The error code of the GOAWAY that ends the connection; `None` where it ends without.
pub fn goaway(stream: &mut impl Read) -> Option<u32> {
    let mut code = None;
    while let Ok(frame) = read(stream) {
        if frame.kind == GOAWAY {
            code = frame.payload[4..8].try_into().ok().map(u32::from_be_bytes);
        }
    }
    code
}
