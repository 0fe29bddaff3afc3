//! Reads CLIENT LIST.

use nagi_findings::observation::Client;
use nagi_load::wire::Wire;

/// Maximum number of clients with which they are listed; a longer list would load the server.
pub(crate) const MAX_CLIENTS: f64 = 1000.0;

/// Lists all clients.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn clients(wire: &mut Wire) -> Result<Vec<Client>, String> {
    Ok(wire.run("CLIENT LIST")?.text().lines().map(client).collect())
}

pub(super) fn client(line: &str) -> Client {
    let mut client = Client::default();
    for (name, value) in line.split(' ').filter_map(|field| field.split_once('=')) {
        let number = value.parse().unwrap_or(0);
        match name {
            "id" => client.id = number,
            "flags" => value.clone_into(&mut client.flags),
            "cmd" => value.clone_into(&mut client.command),
            "omem" => client.output_bytes = number,
            "qbuf" => client.input_bytes = number,
            _ => {}
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_client_list_is_parsed_as_a_client() {
        let line = "id=7 addr=1.2.3.4:5 name= flags=O qbuf=26 omem=4096 cmd=monitor new=x=y odd";
        let expected = Client {
            id: 7,
            flags: "O".to_owned(),
            command: "monitor".to_owned(),
            output_bytes: 4096,
            input_bytes: 26,
        };
        assert_eq!(client(line), expected);
        assert_eq!(client(""), Client::default());
    }
}
