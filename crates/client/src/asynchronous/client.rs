//! A client that sends one command and awaits the reply.

use std::time::{Duration, Instant};

use super::socket::Stream;
use crate::cache::Socket;
use crate::client::{CommandReplies, encode_command};
use crate::{Address, Error, Reply};

/// Stands for no limit. Much larger values might overflow the clocks of runtimes.
const EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// How long a TCP connection may take to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A RESP client for a task of tokio, whose runtime must have I/O and time enabled.
///
/// ```
/// use nagi_client::asynchronous::Client;
/// use nagi_client::{Address, Reply};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let address = Address::from(listener.local_addr()?);
/// # let server = std::thread::spawn(move || {
/// #     let (mut peer, _) = listener.accept().unwrap();
/// #     std::io::Read::read(&mut peer, &mut [0; 100]).unwrap();
/// #     std::io::Write::write_all(&mut peer, b"+PONG\r\n").unwrap();
/// # });
/// let mut client = Client::connect(&address).await?;
/// client.set_timeout(Some(std::time::Duration::from_secs(10)));
/// let reply = client.command(&[b"PING"]).await?;
/// assert_eq!(reply, Reply::Simple("PONG".to_owned()));
/// # server.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Client {
    socket: Stream,
    replies: CommandReplies,
    timeout: Option<Duration>,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// No server listens there.
    ///
    /// ```
    /// use nagi_client::asynchronous::Client;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), nagi_client::Error> {
    /// let address = nagi_client::Address::tcp("127.0.0.1", 1)?;
    /// assert!(Client::connect(&address).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(address: &Address) -> Result<Self, Error> {
        let socket = Stream::connect(address, CONNECT_TIMEOUT).await?;
        Ok(Client { socket, replies: CommandReplies::default(), timeout: None })
    }

    /// Sets the limit for a send without progress, and for a whole reply; `None` means no limit.
    ///
    /// ```
    /// # use std::io::Write;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::asynchronous::Client::connect(&address).await?;
    /// # let mut peer = listener.accept()?.0;
    /// client.set_timeout(Some(std::time::Duration::from_millis(1)));
    /// # peer.write_all(b"$2000\r\n")?;
    /// assert!(client.command(&[b"GET", b"key"]).await.is_err(), "only a part has come");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Sets the maximum length of a reply in bytes, by default 513 MiB; a longer one is an error.
    ///
    /// ```
    /// # use std::io::Write;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::asynchronous::Client::connect(&address).await?;
    /// # let mut peer = listener.accept()?.0;
    /// client.set_reply_limit(1000);
    /// # peer.write_all(b"$2000\r\n")?;
    /// # peer.write_all(&[b'x'; 2002])?;
    /// assert!(client.command(&[b"GET", b"key"]).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_reply_limit(&mut self, bytes: usize) {
        self.replies.limit_bytes = bytes;
    }

    /// Sends one command, beginning with its name, and waits for the reply. Errors of the server
    /// are returned as replies.
    ///
    /// # Errors
    /// The connection is broken, the server sends an invalid reply, or the reply to an earlier
    /// command that was cancelled may still arrive.
    ///
    /// ```
    /// # use std::io::Write;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::asynchronous::Client::connect(&address).await?;
    /// # let mut peer = listener.accept()?.0;
    /// # peer.write_all(b"-ERR unknown command\r\n")?;
    /// let reply = client.command(&[b"NONSENSE"]).await?;
    /// assert_eq!(reply, nagi_client::Reply::Error("ERR unknown command".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn command(&mut self, arguments: &[&[u8]]) -> Result<Reply, Error> {
        self.replies.begin()?;
        let mut request = Vec::new();
        encode_command(arguments, &mut request);
        self.send(&request).await?;
        let reply = self.receive().await?;
        self.replies.end();
        Ok(reply)
    }

    /// Sends bytes without encoding them, such as several commands at once.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// ```
    /// # use std::io::Write;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::asynchronous::Client::connect(&address).await?;
    /// # let mut peer = listener.accept()?.0;
    /// # peer.write_all(b"+PONG\r\n+PONG\r\n")?;
    /// client.send(b"PING\r\nPING\r\n").await?;
    /// assert_eq!(client.receive().await?, client.receive().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.socket.send(bytes, self.limit()).await?)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// The connection is broken, or the server sends an invalid reply.
    ///
    /// ```
    /// # use std::io::Write;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::asynchronous::Client::connect(&address).await?;
    /// # let mut peer = listener.accept()?.0;
    /// # peer.write_all(b"*1\r\n:7\r\n")?;
    /// client.send(b"LRANGE list 0 0\r\n").await?;
    /// let seven = nagi_client::Reply::Integer(7);
    /// assert_eq!(client.receive().await?, nagi_client::Reply::Array(vec![seven]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn receive(&mut self) -> Result<Reply, Error> {
        let deadline = Instant::now() + self.limit();
        loop {
            if let Some(reply) = self.replies.next()? {
                return Ok(reply);
            }
            if self.socket.receive(self.replies.room(), deadline).await? == 0 {
                return Err(Error::Closed);
            }
        }
    }

    fn limit(&self) -> Duration {
        self.timeout.unwrap_or(EVER)
    }
}
