//! A page of a few files, asked for as browsers do.

use std::io::Read;

use super::*;

static CODE: [u8; 4000] = [b'x'; 4000];

static FILES: &[PageFile] = &[
    PageFile {
        path: "/index.html",
        bytes: b"<!doctype html>",
    },
    PageFile {
        path: "/assets/main-abc.js",
        bytes: &CODE,
    },
    PageFile {
        path: "/icon.png",
        bytes: &CODE,
    },
    PageFile {
        path: "/frame/diagram.html",
        bytes: b"<!doctype html>",
    },
];

fn ask(path: &str, asked: &[(&'static str, &str)]) -> Option<(u16, HeaderMap, Vec<u8>)> {
    let mut headers = HeaderMap::new();
    for (name, value) in asked {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let page = WebPage::of(FILES, None);
    let response = if path == "/" {
        page.index(&headers)
    } else {
        page.answer(path, &headers)
    }?;
    let (parts, body) = response.into_parts();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let body = runtime
        .block_on(axum::body::to_bytes(body, 10_000))
        .unwrap();
    Some((parts.status.as_u16(), parts.headers, body.to_vec()))
}

#[test]
fn a_file_is_packed_for_those_who_take_that() {
    for (accepted, packed) in [
        (&[][..], false),
        (&[("accept-encoding", "gzip, deflate, br")], true),
        (&[("accept-encoding", "br;q=1.0, GZIP;q=0.5")], true),
        (
            &[("accept-encoding", "br"), ("accept-encoding", "gzip")],
            true,
        ),
        (&[("accept-encoding", "gzip;q=0")], false),
        (&[("accept-encoding", "identity")], false),
    ] {
        let (status, headers, body) = ask("/assets/main-abc.js", accepted).unwrap();
        let body = if packed { unpacked(&body) } else { body };
        assert!((status, body.as_slice()) == (200, &CODE), "{accepted:?}");
        assert_eq!(headers.get("content-encoding").is_some(), packed);
        assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
        assert_eq!(headers["vary"], "Accept-Encoding");
    }
    let (_, headers, body) = ask("/icon.png", &[("accept-encoding", "gzip")]).unwrap();
    assert!(
        body == CODE && headers["content-type"] == "image/png",
        "a picture is packed already"
    );
    let (_, headers, _) = ask("/", &[("accept-encoding", "gzip")]).unwrap();
    assert!(
        headers.get("content-encoding").is_none(),
        "what is small grows by packing"
    );
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(body)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

#[test]
fn what_a_browser_has_is_not_sent_again() {
    let (_, first, _) = ask("/assets/main-abc.js", &[]).unwrap();
    assert_eq!(
        first["cache-control"],
        "public, max-age=31536000, immutable"
    );
    let tag = first["etag"].to_str().unwrap();
    for known in [tag.to_owned(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let (status, headers, body) =
            ask("/assets/main-abc.js", &[("if-none-match", &known)]).unwrap();
        assert_eq!((status, body.len()), (304, 0), "{known}");
        assert_eq!(headers["etag"], first["etag"]);
    }
    let packed = [("accept-encoding", "gzip"), ("if-none-match", tag)];
    assert_eq!(
        ask("/assets/main-abc.js", &packed).unwrap().0,
        200,
        "packed it is something else"
    );
    assert_eq!(
        ask("/icon.png", &[]).unwrap().1["cache-control"],
        "no-cache"
    );
}

#[test]
fn the_page_itself_is_never_kept_and_runs_only_its_own_code() {
    let (status, headers, _) = ask("/", &[("if-none-match", "*")]).unwrap();
    assert_eq!(
        (status, headers["content-type"].to_str().unwrap()),
        (200, "text/html; charset=utf-8")
    );
    assert_eq!(headers["cache-control"], "no-store");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("  "),
        "{policy}"
    );
}

#[test]
fn a_frame_has_no_origin_and_reaches_nothing() {
    let (status, headers, _) = ask("/frame/diagram.html", &[]).unwrap();
    assert_eq!(
        (status, headers["content-type"].to_str().unwrap()),
        (200, "text/html; charset=utf-8")
    );
    let policy = headers["content-security-policy"].to_str().unwrap();
    let rules: Vec<&str> = policy.split("; ").collect();
    for rule in [
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'none'",
        "frame-ancestors 'self'",
    ] {
        assert!(rules.contains(&rule), "{rule} in {policy}");
    }
    assert!(
        !policy.contains("allow-same-origin") && !policy.contains("unsafe-eval"),
        "{policy}"
    );
    let known = headers["etag"].to_str().unwrap();
    let (status, headers, _) = ask("/frame/diagram.html", &[("if-none-match", known)]).unwrap();
    assert_eq!(
        (status, headers["content-security-policy"].to_str().unwrap()),
        (304, policy),
        "a browser takes the policy of a 304"
    );
}

#[test]
fn the_page_is_told_the_servers_language() {
    static PAGE: &[PageFile] = &[PageFile {
        path: "/index.html",
        bytes: include_bytes!("../../../../web/index.html"),
    }];
    for (locale, start) in [
        (None, "<html lang=\"en\">"),
        (Some(Locale::En), "<html lang=\"en\" data-locale=\"en\">"),
        (Some(Locale::Uk), "<html lang=\"uk\" data-locale=\"uk\">"),
    ] {
        let page =
            String::from_utf8(WebPage::of(PAGE, locale).files[INDEX].bytes.to_vec()).unwrap();
        assert!(page.contains(start), "{page}");
    }
}

#[test]
fn only_files_of_the_page_are_there() {
    let page = WebPage::of(FILES, None);
    for path in [
        "/assets/other.js",
        "/assets/",
        "/assets/../index.html",
        "/index.html",
        "/",
        "",
    ] {
        assert!(!page.has(path), "{path}");
    }
    assert!(page.has("/icon.png") && page.has("/assets/main-abc.js"));
    assert!(WebPage::of(&[], None).index(&HeaderMap::new()).is_none());
}
