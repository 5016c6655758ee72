"""The kinds of task, defined in one file each."""

from nlp_core.kinds.base import (
    ANSWERS,
    GROUP,
    KINDS,
    LABEL,
    LABELS,
    MASKED,
    NEXT_WORD,
    TAGS,
    Column,
    Form,
    Kind,
    Target,
    UserFile,
    list_user_kinds,
    register,
)
from nlp_core.kinds.classification import CLASSIFICATION, PAIR_CLASSIFICATION
from nlp_core.kinds.intent_slots import INTENT_SLOTS
from nlp_core.kinds.language_model import LANGUAGE_MODEL
from nlp_core.kinds.masked_language_model import MASKED_LANGUAGE_MODEL
from nlp_core.kinds.multi_label import MULTI_LABEL
from nlp_core.kinds.ranking import RANKING
from nlp_core.kinds.regression import PAIR_REGRESSION, REGRESSION
from nlp_core.kinds.span import SPAN, SPAN_LABELS
from nlp_core.kinds.tagging import TAGGING
