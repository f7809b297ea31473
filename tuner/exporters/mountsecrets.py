"""Hides what a mount's files may hold and nobody but their reader may see: output ends up in logs and tickets."""

from __future__ import annotations

import re

HIDDEN = "***"
_NAME = r"[\w-]*(?:pass|secret|token|access[_-]key|account[_-]key|bearer|credential|sas[_-]url)[\w-]*"
_VALUE = r"(?:\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s'\"])+"
# More is hidden rather than less: where a value ends depends on who reads it.
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"((?<=://))[^/@\s'\"]*:[^@\s'\"]*(?=@)",  # redis://:password@host
        r"([?&][\w.-]*(?:pass|secret|token|key|sig)[\w.-]*=)[^&\s'\"]+",
        rf"((?P<quote>[\"']){_NAME}=)[^\"'\r\n]*(?=(?P=quote))",  # Environment="META_PASSWORD=two words"
        rf"({_NAME}=){_VALUE}",  # RCLONE_CONFIG_STORE_PASS=…, :s3,secret_access_key=…:
        rf"(--{_NAME}[ \t]+)(?!-){_VALUE}",
    )
)


def masked(text: str) -> str:
    """``text`` of an env file, script, unit or fstab with the values of secrets hidden; as many lines as before."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text
