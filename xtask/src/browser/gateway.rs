//! The HTTP gateway as used by the script of a page, and how a browser handles values.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Stage, check_requests};

/// The requests of a same-origin script; evaluates to their answers.
const SCRIPT: &str = "(async () => {
  const text = async (path, options) => (await fetch(path, options)).text();
  const post = (path, body) => text(path, { method: 'POST', body: JSON.stringify(body) });
  const out = {};
  out.put = await text('/SET/bytes', { method: 'PUT', body: new Uint8Array([104, 105, 0, 255]) });
  out.get = [...new Uint8Array(await (await fetch('/GET/bytes.bin')).arrayBuffer())];
  out.list = await post('/', ['INCRBY', 'n', '5']);
  out.pipeline = await post('/pipeline', [['INCR', 'n'], ['GET', 'n']]);
  out.socket = await new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://${location.host}/.json`);
    const heard = [];
    socket.onopen = () => [['SET', 's', 'ü'], ['GET', 's'], ['SUBSCRIBE', 'news']].forEach(
      (command) => socket.send(JSON.stringify(command)));
    socket.onmessage = ({ data }) => {
      heard.push(data);
      if (heard.length === 3) text('/PUBLISH/news/one', { method: 'POST' });
      if (heard.length === 4) { socket.close(); resolve(heard); }
    };
    socket.onerror = () => reject(new Error('the socket fails'));
  });
  out.events = await new Promise((resolve, reject) => {
    const source = new EventSource('/SUBSCRIBE/sport');
    const heard = [];
    source.onmessage = ({ data }) => {
      heard.push(data);
      if (heard.length === 1) text('/PUBLISH/sport', { method: 'POST', body: 'two\\nlines' });
      if (heard.length === 2) { source.close(); resolve(heard); }
    };
    source.onerror = () => reject(new Error('the events fail'));
  });
  return out;
})()";

pub(super) fn serves_scripts_of_its_own_host(stage: &mut Stage) -> Result<()> {
    let server = stage.server(&[])?;
    let mut tab = stage.tab()?;
    tab.open(&format!("http://{}/server-status", server.http()))?;
    let answers = tab.evaluate(SCRIPT)?;
    let expected = json!({
        "put": r#"{"SET":[true,"OK"]}"#,
        "get": [104, 105, 0, 255],
        "list": r#"{"result":5}"#,
        "pipeline": r#"[{"result":6},{"result":"6"}]"#,
        "socket": [
            r#"{"SET":[true,"OK"]}"#,
            r#"{"GET":"ü"}"#,
            r#"{"SUBSCRIBE":["subscribe","news",1]}"#,
            r#"{"SUBSCRIBE":["message","news","one"]}"#,
        ],
        "events": ["subscribe,sport,1", "message,sport,two\nlines"],
    });
    ensure!(answers == expected, "{answers}");
    let address = server.http();
    let requests = tab.requests();
    ensure!(requests.contains(&format!("ws://{address}/.json")), "{requests:?}");
    let foreign = requests.iter().find(|it| !it.contains(&format!("://{address}/")));
    ensure!(foreign.is_none(), "{foreign:?} is asked for");
    ensure!(tab.errors().is_empty(), "{:?}", tab.errors());
    Ok(())
}

/// A value that is opened like a page must not be active: text is shown as text, and if the
/// settings permit HTML, no script in it runs.
pub(super) fn has_no_value_run(stage: &mut Stage) -> Result<()> {
    const PAGE: &str = "<!DOCTYPE html><p id=here>text</p><script>document.title = 'ran'</script>\
                        <img src=x onerror=\"document.title = 'ran'\">";
    let server = stage.server(&["--http-active-types", "yes"])?;
    server.connect_resp().run_words(&["SET", "page", PAGE]);
    let mut tab = stage.tab()?;
    let base = format!("http://{}", server.http());
    tab.open(&format!("{base}/GET/page.txt"))?;
    tab.check("document.contentType === 'text/plain' && document.querySelector('#here') === null")?;
    tab.check(&format!("document.body.textContent === {}", json!(PAGE)))?;
    check_requests(&mut tab, &base)?;
    tab.open(&format!("{base}/GET/page.html"))?;
    tab.check("document.contentType === 'text/html' && document.querySelector('#here') !== null")?;
    tab.check("document.title === '' && self.origin === 'null'")
}
