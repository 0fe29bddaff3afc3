//! Compares how the clients of two programs place keys. If the placement differs, one program
//! misses values that the other has stored.

use std::fmt;
use std::str::FromStr;

use super::{Configuration, Ring, Server};

/// A configuration, optionally followed by `@` and its own servers, separated by commas.
///
/// ```
/// use nagi_client::ring::{ClientConfiguration, Server};
/// let client: ClientConfiguration = "php-ketama@kyoto,tokyo".parse()?;
/// assert_eq!(client.ring(&[]).servers(), [Server::new("kyoto", 0), Server::new("tokyo", 0)]);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfiguration {
    text: String,
    configuration: Configuration,
    servers: Option<Vec<Server>>,
}

impl ClientConfiguration {
    /// Builds the ring over the configuration's own servers or, if it has none, over the `usual`
    /// ones.
    ///
    /// ```
    /// use nagi_client::ring::{ClientConfiguration, Server};
    /// let client: ClientConfiguration = "dalli".parse()?;
    /// assert_eq!(client.ring(&[Server::new("kyoto", 0)]).servers().len(), 1);
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn ring(&self, usual: &[Server]) -> Ring {
        self.configuration.ring(self.servers.clone().unwrap_or_else(|| usual.to_vec()))
    }
}

impl FromStr for ClientConfiguration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (configuration, servers) = match text.split_once('@') {
            Some((configuration, servers)) => {
                let servers = servers.split(',').map(str::parse).collect::<Result<_, _>>()?;
                (configuration, Some(servers))
            }
            None => (text, None),
        };
        Ok(ClientConfiguration {
            text: text.to_owned(),
            configuration: configuration.parse()?,
            servers,
        })
    }
}

impl fmt::Display for ClientConfiguration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Whether two rings place a key on different servers. Weights are ignored in the comparison of
/// servers.
///
/// ```
/// use nagi_client::ring::{ClientConfiguration, Server, place_differently};
/// let servers = [Server::new("kyoto", 0), Server::new("tokyo", 0)];
/// let parse = |text: &str| text.parse::<ClientConfiguration>().unwrap();
/// let [plain, ketama] = ["php", "php-ketama"].map(parse);
/// let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
/// let (plain, ketama) = (plain.ring(&servers), ketama.ring(&servers));
/// assert!(keys.iter().any(|key| place_differently(&plain, &ketama, key.as_bytes())));
/// assert!(!keys.iter().any(|key| place_differently(&plain, &plain, key.as_bytes())));
/// ```
#[must_use]
pub fn place_differently(one: &Ring, other: &Ring, key: &[u8]) -> bool {
    let [first, second] = [one, other]
        .map(|ring| ring.server_of(key).map(|server| (server.host.as_str(), server.port)));
    first != second
}
