//! How many tokens a request has taken, as replies say it.

use formats::json::write;

/// `"usage": {"prompt_tokens","total_tokens"}`.
pub(crate) fn write(out: &mut Vec<u8>, tokens: u64) {
    write::key(out, "usage");
    out.push(b'{');
    for key in ["prompt_tokens", "total_tokens"] {
        write::key(out, key);
        write::number(out, tokens);
    }
    out.push(b'}');
}
