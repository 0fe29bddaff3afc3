//! Reads CLIENT LIST.

use nagi_findings::observation::Client;
use nagi_load::wire::{Answer, Wire};

/// Maximum number of clients with which they are listed; a longer list would load the server.
pub(crate) const MAX_CLIENTS: f64 = 1000.0;

/// Maximum length of a list: with that many clients, 8 KB each.
const LIST_BYTES: usize = 8 << 20;

/// Lists all clients.
///
/// # Errors
/// The server cannot be queried, or refuses, or the list is too long; the error is one line.
pub(crate) fn clients(wire: &mut Wire) -> Result<Vec<Client>, String> {
    wire.keep(LIST_BYTES);
    match wire.run("CLIENT LIST")? {
        Answer::Text(text, len) if text.len() as u64 != len => {
            Err(format!("a list of {} MB is too long to be kept", len >> 20))
        }
        list => Ok(list.text().lines().map(client).collect()),
    }
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
    use nagi_load::interrupt::Interrupt;
    use nagi_load::target::Target;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// The list as read from a server with so many clients, each with a name of 1,000 letters.
    fn read_list_of(count: usize) -> Result<Vec<Client>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let target = Target::parse(&url, None).unwrap();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut socket = listener.accept().unwrap().0;
                assert_ne!(socket.read(&mut [0; 1024]).unwrap(), 0);
                let line = format!("id=7 name={} flags=O\n", "x".repeat(1000));
                let list = line.repeat(count);
                socket.write_all(format!("${}\r\n{list}\r\n", list.len()).as_bytes()).unwrap();
            });
            let list = clients(&mut Wire::open(&target, &Interrupt::default()).unwrap());
            serving.join().unwrap();
            list
        })
    }

    #[test]
    fn a_long_list_is_read_and_one_that_is_too_long_is_an_error() {
        for count in [0, 1000, 5000] {
            assert_eq!(read_list_of(count).unwrap().len(), count);
        }
        let error = read_list_of(9000).unwrap_err();
        assert_eq!(error, "a list of 8 MB is too long to be kept");
    }

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
