//! Servers that ask for a password, and RESP3.

use std::path::Path;

use nagi_client::cache::{Item, Reason, RespVersion, Settings, Stored};
use nagi_client::wire::{Dialect, Login};

use crate::peer::Peer;
use crate::ports::free_port;
use crate::{cache, common_operations, settings_for};

fn login(user: Option<&str>, password: &str) -> Option<Login> {
    Some(Login { user: user.map(str::to_owned), password: password.to_owned() })
}

#[test]
fn redis_is_sent_the_password_and_the_version() {
    let secured = Peer::start("redis-server", free_port(), &["--requirepass", "s3cret"]);
    let open = Peer::fresh("redis-server");
    for (peer, login) in [
        (&secured, login(None, "s3cret")),
        (&secured, login(Some("default"), "s3cret")),
        (&open, None),
    ] {
        for resp in [RespVersion::Two, RespVersion::Three] {
            let settings = Settings { resp, login: login.clone(), ..settings_for(Dialect::Resp) };
            common_operations(&mut cache([peer.port], settings));
        }
    }
    for (wrong, start) in [(None, "NOAUTH"), (login(None, "other"), "WRONGPASS")] {
        let settings = Settings { login: wrong, ..settings_for(Dialect::Resp) };
        let mut cache = cache([secured.port], settings);
        for _ in 0..2 {
            let failure = cache.set(b"a", &Item::new(b"x")).unwrap_err();
            assert!(
                matches!(&failure.reason, Reason::Refused(text) if text.starts_with(start)),
                "{failure}"
            );
            assert!(!failure.to_string().contains("other"), "{failure}");
        }
    }
}

#[test]
fn memcached_is_sent_the_user_and_the_password() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memcached-users");
    std::fs::write(&file, "bob:s3cret\n").unwrap();
    let peer = Peer::start("memcached", free_port(), &["-Y", file.to_str().unwrap()]);
    for dialect in [Dialect::Text, Dialect::Meta] {
        let settings = |login| Settings { login, ..settings_for(dialect) };
        let mut known = cache([peer.port], settings(login(Some("bob"), "s3cret")));
        assert_eq!(known.set(b"a", &Item::new(b"x")), Ok(Stored::Yes));
        assert_eq!(known.get(b"a").unwrap().unwrap().bytes, b"x");
        for wrong in [None, login(Some("bob"), "other"), login(None, "s3cret")] {
            let failure = cache([peer.port], settings(wrong)).get(b"a").unwrap_err();
            assert!(matches!(failure.reason, Reason::Refused(_) | Reason::Request(_)), "{failure}");
        }
    }
}
