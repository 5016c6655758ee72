"""Texts in other scripts than Latin: tokens, steps, segmentation, and encoders that read them."""

import importlib.util
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlp_core.cli import main
from nlp_core.config.base import parse_config, read_mapping
from nlp_core.config.dataset import DatasetConfig, read_dataset
from nlp_core.data import tokenization
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.sample_languages import LANGUAGES
from nlp_core.data.source import Places, fetch_source
from nlp_core.data.split_column import WordText
from nlp_core.data.task import Task, read_task
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS, describe_code, describe_tokenizer
from nlp_core.encoders.pretrained import build_encoder
from nlp_core.errors import ConfigError
from reglue_runtime.example import _build_tokenizer

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("data")
    dataset = read_dataset("sample_languages", ROOT / "sources")
    fetch_source("sample_languages", dataset, Places(folder))
    preprocess_source("sample_languages", dataset, folder)
    return read_task(folder / "processed/sample_languages")


def write_multilingual_encoder(folder: Path, task: Task) -> Path:
    """Write the tokenizer of an XLM-R of a few hundred pieces, learned on the sample."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    texts = task.read_split("train").raw
    assert texts is not None
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts.first, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    config = {
        "model_type": "xlm-roberta",
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "max_position_embeddings": 66,
        "vocab_size": tokenizer.get_vocab_size(),
        "type_vocab_size": 1,
        "pad_token_id": 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def test_every_language_is_a_split_of_its_own(task: Task) -> None:
    for code, words in LANGUAGES.items():
        split = task.read_split(f"dev_{code}")
        assert len(split) == 30
        assert split.raw is not None
        assert any(opinion in split.raw.first[0] for opinion in (*words.good, *words.bad))


@pytest.mark.parametrize("name", ["spaces", "plain_words", "unicode_words", "characters"])
@pytest.mark.parametrize("code", LANGUAGES)
def test_no_letter_of_a_script_is_lost(task: Task, code: str, name: str) -> None:
    raw = task.read_split(f"dev_{code}").raw
    assert raw is not None
    for text in raw.first:
        places = LOCATORS.get(name)(text)
        assert "".join(text[place.start : place.end] for place in places) == text.replace(" ", "")
        assert TOKENIZERS.get("words")(text) != ["<empty>"]


def test_vowel_signs_stay_with_their_letters() -> None:
    text = "फ़िल्म बहुत अच्छी है। cafe\u0301 isn't 1,000.5"
    tokens = ["फ़िल्म", "बहुत", "अच्छी", "है", "।", "cafe\u0301", "is", "n't", "1,000.5"]
    assert TOKENIZERS.get("unicode_words")(text) == tokens
    plain = "The U.S. isn't Luther's 16th-century_b \U0001f600."
    assert TOKENIZERS.get("unicode_words")(plain) == TOKENIZERS.get("plain_words")(plain)


def test_characters_of_cjk_are_tokens_and_other_words_stay_whole() -> None:
    text = "iPhone 很好, がか\u3099ーﾊﾟ 1,000.5 cafe\u0301"
    tokens = ["iPhone", "很", "好", ",", "が", "か\u3099", "ー", "ﾊ", "ﾟ", "1,000.5", "cafe\u0301"]
    assert TOKENIZERS.get("characters")(text) == tokens
    assert TOKENIZERS.get("characters")(" ") == ["<empty>"]


def test_a_multilingual_encoder_reads_every_script(tmp_path: Path, task: Task) -> None:
    init = write_multilingual_encoder(tmp_path / "encoder", task)
    vocabulary = PieceVocabulary.learn([], {"max_length": 64}, init)
    torch.manual_seed(1)
    encoder = build_encoder(vocabulary.config, None)
    for code in LANGUAGES:
        split = task.read_split(f"dev_{code}")
        column = split.columns["texts"]
        ids = vocabulary.read(column).take(np.arange(4))[0]
        assert (ids != 3).all(), f"{code}: an unknown piece"
        hidden = encoder(torch.from_numpy(ids)).last_hidden_state
        assert bool(torch.isfinite(hidden).all())
        words = split.columns["tokens.pieces"]
        assert isinstance(words, WordText)
        read = vocabulary.read(words)
        assert (read.outline().lengths == words.words.lengths).all()


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("nfc+spaces", "cafe\u0301 \ufb01n", ["caf\u00e9", "\ufb01n"]),
        ("nfkc+spaces", "\ufb01n \u2460 \uff22\uff25", ["fin", "1", "BE"]),
        ("width+spaces", "\uff22\uff25\u3000\uff76\uff9e \ufb01n", ["BE", "\u30ac", "\ufb01n"]),
        ("width+words", "isn't\uff01", ["is", "n't", "!"]),
        ("nfc+width+plain_words", "\uff0c", [","]),
        ("content+spaces", "The plot of it is NOT in-depth, is it", ["plot", "NOT", "in-depth,"]),
        ("content+words", "That's what they can't do.", ["That", "'s", "ca", "n't", "."]),
        ("content+spaces", "this is it", ["<empty>"]),
    ],
)
def test_steps_normalise_before_a_text_is_split(name: str, text: str, tokens: list[str]) -> None:
    assert TOKENIZERS.get(name)(text) == tokens
    note = {"name": name, "substitutions": describe_tokenizer(name)}
    assert _build_tokenizer(note)(text) == tokens


def test_steps_keep_no_offsets_and_have_names() -> None:
    with pytest.raises(ConfigError, match=r"unknown step 'nfck'.* Did you mean"):
        TOKENIZERS.get("nfck+words")
    with pytest.raises(ConfigError, match="whose steps move characters"):
        LOCATORS.get("nfkc+plain_words")


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("chinese_words", "jieba", "chinese"), ("japanese_words", "fugashi", "japanese")],
)
def test_a_file_is_not_read_without_the_library_of_its_tokenizer(
    name: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(tokenization, "version", find)
    message = rf"{name} needs the library {library}.*pip install 'reglue\[{extra}\]'"
    with pytest.raises(ConfigError, match=message):
        describe_code(f"nfkc+{name}")


@pytest.mark.parametrize(
    ("name", "library", "text", "tokens"),
    [
        ("chinese_words", "jieba", "我来到 清华大学。", ["我", "来到", "清华大学", "。"]),
        ("japanese_words", "fugashi", "東京に 住む。", ["東京", "に", "住む", "。"]),
    ],
)
def test_texts_without_spaces_are_cut_into_words(
    name: str, library: str, text: str, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(library) is None:
        with pytest.raises(ConfigError, match=rf"{name} needs the library {library}.*pip install"):
            TOKENIZERS.get(name)(text)
        return
    assert TOKENIZERS.get(name)(text) == tokens
    places = LOCATORS.get(name)(text)
    assert [text[place.start : place.end] for place in places] == tokens
    with pytest.raises(ConfigError, match="needs a plug-in or a library"):
        describe_tokenizer(name)


def test_a_source_can_name_steps_and_segmenters() -> None:
    value: dict[str, Any] = read_mapping(ROOT / "sources/sample_languages.yaml")
    for name in ("width+japanese_words", "nfc+nfkc+chinese_words"):
        value["task"]["tokens"] = name
        assert parse_config(value, DatasetConfig, where="d").task is not None
    value["task"]["tokens"] = "lower+words"
    with pytest.raises(ConfigError, match=r"task\.tokens: found 'lower\+words'"):
        parse_config(value, DatasetConfig, where="d")


@pytest.mark.slow
def test_the_model_file_for_chinese_learns(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jieba")
    monkeypatch.chdir(tmp_path)
    for name in ("train", "dev"):
        raw = task.folder.parents[1] / "raw/sample_languages" / f"{name}.tsv"
        header, *lines = raw.read_text(encoding="utf-8").splitlines(keepends=True)
        place = header.rstrip("\n").split("\t").index("language")
        chinese = [line for line in lines if line.rstrip("\n").split("\t")[place] == "zh"]
        Path(f"{name}.tsv").write_text("".join([header, *chinese]), encoding="utf-8")
    model = ROOT / "zoo/sentence/chinese_textcnn.json"
    main(["train", str(model), "--train", "train.tsv", "--dev", "dev.tsv", "-o", "out"])
    metrics = json.loads(Path("out/metrics.json").read_text())["metrics"]
    assert metrics["dev"]["accuracy"] > 80
    words = json.loads(Path("out/vocabulary.json").read_text())["layers"]["word"]["words"]
    assert {"这部", "电影", "精彩"} <= {*words}
