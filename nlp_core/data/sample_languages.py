"""Words of the sample reviews in several languages, one script each; see sample.py."""

from typing import NamedTuple


class Language(NamedTuple):
    """The words of a review.

    Attributes:
        order: how a noun, an optional degree and an opinion make a sentence.
    """

    order: str
    nouns: tuple[str, ...]
    degrees: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]


LANGUAGES = {
    "ar": Language(
        "{noun} {degree}{opinion} .",
        ("الفيلم", "الكتاب", "القصة", "المشهد"),
        ("حقا ", "دائما "),
        ("جميل", "رائع", "ممتع", "جيد"),
        ("سيئ", "ممل", "ضعيف", "قبيح"),
    ),
    "el": Language(
        "{noun} είναι {degree}{opinion} .",
        ("το έργο", "το βιβλίο", "το τέλος", "το σενάριο"),
        ("πολύ ", "πάντα "),
        ("όμορφο", "καλό", "έξυπνο", "ζωντανό"),
        ("κακό", "βαρετό", "αδύναμο", "άσχημο"),
    ),
    "hi": Language(
        "{noun} {degree}{opinion} है ।",
        ("फ़िल्म", "किताब", "कहानी", "भूमिका"),
        ("बहुत ", "सच में "),
        ("अच्छी", "सुंदर", "मज़ेदार", "शानदार"),
        ("बुरी", "उबाऊ", "कमज़ोर", "खराब"),
    ),
    "ja": Language(
        "{noun}は{degree}{opinion}です。",
        ("映画", "物語", "音楽", "ドラマ"),
        ("とても", "本当に"),
        ("面白い", "美しい", "楽しい", "良い"),
        ("退屈", "悪い", "弱い", "酷い"),
    ),
    "ru": Language(
        "{noun} {degree}{opinion} .",
        ("фильм", "рассказ", "финал", "сюжет"),
        ("очень ", "всегда "),
        ("хороший", "весёлый", "умный", "яркий"),
        ("плохой", "скучный", "слабый", "пустой"),
    ),
    "zh": Language(
        "{noun}{degree}{opinion}。",
        ("这部电影", "这本书", "这个故事", "这首音乐"),
        ("非常", "真的很"),
        ("精彩", "有趣", "动人", "优秀"),
        ("无聊", "糟糕", "失败", "平淡"),
    ),
}
"""By ISO 639-1 code."""
