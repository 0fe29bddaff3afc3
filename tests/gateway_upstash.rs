//! Upstash's REST interface: arguments as they were written.

use crate::gateway::{Client, nagi};

#[test]
fn values_are_stored_as_they_were_written() {
    let server = nagi(&[]);
    let mut redis = server.connect_resp();
    let mut client = Client::of(&server);
    for value in [
        r#"{"b":1,"a":2.50}"#,
        r#"{ "b" : [1, 2.0 , null], "a": "\u00e9" }"#,
        "[3,[2],1]",
        "18446744073709551616",
        "-12345678901234567890123",
        "1e2",
        "2.50",
        "-0",
        "0.1000",
        "true",
    ] {
        let own = format!(r#"["SET","f", {value} ]"#);
        for (path, body) in [
            ("/", own.clone()),
            ("/pipeline", format!("[{own}]")),
            ("/multi-exec", format!("[ {own} ]")),
        ] {
            redis.run("DEL f");
            assert_eq!(client.post(path, &body).0, 200, "{path} {value}");
            assert_eq!(redis.run("GET f").text(), value, "{path}");
        }
    }
}
