use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::reply::{MAX_REPLY, Reply, Wanted};

/// A connection that has stood for so long without a question was sound.
const SOUND: Duration = Duration::from_secs(1);
/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(1);
/// No more questions are taken until what is to be written is shorter, in bytes.
const OUTBOX: usize = 32 * 1_024;
/// How much is read at once, in bytes.
const INBOX: usize = 8 * 1_024;

/// Where the daemon is.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Unix(PathBuf),
    Tcp(String),
}

/// One connection as those see it who ask.
#[derive(Debug)]
pub(super) struct Lane {
    questions: mpsc::UnboundedSender<Asked>,
    /// What bounds the questions.
    places: Arc<Semaphore>,
    state: Arc<AtomicU8>,
}

/// The last attempt to connect failed, and questions are not taken.
const DOWN: u8 = 0;
/// There is no connection yet, and questions wait for it.
const CONNECTING: u8 = 1;
const UP: u8 = 2;

/// A question, from when it is asked until its reply is read. To drop it tells the one
/// who asks that there will be none.
#[derive(Debug)]
struct Asked {
    question: Vec<u8>,
    wanted: Wanted,
    reply: oneshot::Sender<Reply>,
    _place: OwnedSemaphorePermit,
}

impl Lane {
    /// Starts the connection's task, which ends with the lane.
    pub(super) fn start(target: Target, places: usize, patience: Duration) -> Lane {
        let (questions, asked) = mpsc::unbounded_channel();
        let state = Arc::new(AtomicU8::new(CONNECTING));
        let task = Task {
            target,
            patience,
            state: Arc::clone(&state),
            asked,
        };
        tokio::spawn(task.run());
        Lane {
            questions,
            places: Arc::new(Semaphore::new(places)),
            state,
        }
    }

    /// How good it is to ask here: first whether it is connected, then by free places.
    pub(super) fn rank(&self) -> (u8, usize) {
        let state = self.state.load(Ordering::Relaxed);
        (state, self.places.available_permits())
    }

    pub(super) fn is_down(&self) -> bool {
        self.state.load(Ordering::Relaxed) == DOWN
    }

    /// Waits for a place to ask in.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Asks. `None` if there will be no reply.
    pub(super) async fn ask(
        &self,
        place: OwnedSemaphorePermit,
        question: Vec<u8>,
        wanted: Wanted,
    ) -> Option<Reply> {
        let (reply, replied) = oneshot::channel();
        let asked = Asked {
            question,
            wanted,
            reply,
            _place: place,
        };
        self.questions.send(asked).ok()?;
        replied.await.ok()
    }
}

#[derive(Debug)]
struct Task {
    target: Target,
    patience: Duration,
    state: Arc<AtomicU8>,
    asked: mpsc::UnboundedReceiver<Asked>,
}

enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// How a connection came to its end.
enum End {
    /// Nobody will ask any more.
    Unwanted,
    /// It was lost, and was sound.
    Lost,
    /// It is not known that it ever was of use.
    Useless,
}

/// Nobody will ask any more.
struct Unwanted;

impl Task {
    async fn run(mut self) {
        let mut backoff = Backoff::new();
        let mut pause = Duration::ZERO;
        loop {
            let Ok(connected) = self.connect(pause, backoff.is_failing()).await else {
                return;
            };
            let end = match connected {
                Err(error) => {
                    // Once for each time that it is away.
                    if !backoff.is_failing() {
                        tracing::warn!(daemon = ?self.target, %error, "no connection to the daemon");
                    }
                    End::Useless
                }
                Ok(connection) => {
                    self.state.store(UP, Ordering::Relaxed);
                    match connection {
                        Connection::Unix(stream) => self.serve(stream).await,
                        Connection::Tcp(stream) => self.serve(stream).await,
                    }
                }
            };
            let state = match end {
                End::Unwanted => return,
                End::Lost => {
                    backoff.succeeded();
                    CONNECTING
                }
                End::Useless => {
                    backoff.failed();
                    DOWN
                }
            };
            self.state.store(state, Ordering::Relaxed);
            pause = backoff.pause();
        }
    }

    /// Connects after a pause. Questions are dropped meanwhile if `failing`, else they wait.
    async fn connect(
        &mut self,
        pause: Duration,
        failing: bool,
    ) -> Result<io::Result<Connection>, Unwanted> {
        let mut connecting = pin!(async {
            sleep(pause).await;
            let connected = timeout(CONNECT, self.target.connect()).await;
            connected.unwrap_or_else(|late| Err(late.into()))
        });
        loop {
            tokio::select! {
                connected = &mut connecting => return Ok(connected),
                asked = self.asked.recv(), if failing => match asked {
                    Some(asked) => drop(asked),
                    None => return Err(Unwanted),
                },
            }
        }
    }

    /// Writes questions and reads replies until the connection's end.
    async fn serve(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin) -> End {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut inbox = BytesMut::with_capacity(INBOX);
        let mut outbox = BytesMut::new();
        let mut unanswered = VecDeque::new();
        let made = Instant::now();
        // The last reply, or the first question after the last reply to all.
        let mut heard = made;
        let mut useful = false;
        loop {
            tokio::select! {
                biased;
                read = reader.read_buf(&mut inbox) => {
                    if !matches!(read, Ok(1..)) || !deliver(&mut inbox, &mut unanswered, &mut useful) {
                        break;
                    }
                    heard = Instant::now();
                    inbox.reserve(INBOX);
                }
                asked = self.asked.recv(), if outbox.len() < OUTBOX => {
                    let Some(mut asked) = asked else {
                        return End::Unwanted;
                    };
                    // Nobody waits for it any more, and it was not sent.
                    if asked.reply.is_closed() {
                        continue;
                    }
                    if unanswered.is_empty() {
                        heard = Instant::now();
                    }
                    outbox.extend_from_slice(&std::mem::take(&mut asked.question));
                    unanswered.push_back(asked);
                }
                written = writer.write(&outbox), if !outbox.is_empty() => match written {
                    Ok(written @ 1..) => outbox.advance(written),
                    Ok(0) | Err(_) => break,
                },
                () = sleep_until(heard + self.patience), if !unanswered.is_empty() => break,
            }
        }
        let idle = unanswered.is_empty() && made.elapsed() >= SOUND;
        if useful || idle {
            End::Lost
        } else {
            End::Useless
        }
    }
}

/// Hands out the replies that are in `inbox`, each to the one that has waited longest.
/// `false`: what is there is no reply to what was asked, and no more can be understood.
fn deliver(inbox: &mut BytesMut, unanswered: &mut VecDeque<Asked>, useful: &mut bool) -> bool {
    loop {
        let (reply, size) = match Reply::read(inbox) {
            Ok(Some(read)) => read,
            Ok(None) => return inbox.len() <= MAX_REPLY,
            Err(_) => return false,
        };
        let first = unanswered.front();
        if !first.is_some_and(|asked| reply.answers(asked.wanted)) {
            return false;
        }
        inbox.advance(size);
        *useful = true;
        if let Some(asked) = unanswered.pop_front() {
            // Who has given up does not listen: the reply is nobody else's.
            let _ = asked.reply.send(reply);
        }
    }
}

impl Target {
    async fn connect(&self) -> io::Result<Connection> {
        match self {
            Target::Unix(path) => UnixStream::connect(path).await.map(Connection::Unix),
            Target::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Connection::Tcp(stream))
            }
        }
    }
}
