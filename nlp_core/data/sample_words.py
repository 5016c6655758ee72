"""The words of the sample grammars, by meaning."""


def _split(words: str) -> list[str]:
    return words.split()


GOOD = _split(
    "bright charming clever crisp fresh funny generous gentle graceful honest inventive joyful "
    "lively moving original playful polished rich sharp sincere splendid tender thrilling warm "
    "witty wonderful heartfelt radiant assured nimble"
)
BAD = _split(
    "awkward bland boring careless clumsy cold confused crude dull empty flat forced gloomy "
    "hollow lazy limp messy muddled noisy pointless shallow shrill sloppy stale tedious thin "
    "tired ugly weak wooden"
)
PLAIN = _split("old new long short early late first second local recent usual quiet large small")
NOUNS = _split(
    "acting camera cast dialogue direction drama ending film humor idea joke lighting look movie "
    "mood music opening pace performance picture plot scene score script song staging story style "
    "theme voice"
)
DEGREES = _split("very rather quite truly really always often mostly")
NEGATIONS = _split("not never hardly")
FIRST_NAMES = _split(
    "Adele Anton Bela Boris Carla Clara Dario Edith Elsa Emil Fabio Felix Greta Hanna Hugo Ida "
    "Inga Ivan Jana Jonas Karl Lena Lukas Marta Milo Nadia Nils Olga Oskar Paula Petra Rosa Rufus "
    "Silva Tilda Tomas Ursula Vera Viktor Yara"
)
NAME_STARTS = _split(
    "Ald Ber Bran Cal Dor Elm Fal Gor Hal Har Kal Kes Lam Lin Mar Mel Nor Old Pel Ren Ros Sal "
    "Stan Tar Thor Val Wen Wim Yor Zan"
)
PERSON_ENDS = _split("son man sen ski er ley")
PLACE_ENDS = _split("ford burg ton dale stad mouth")
COMPANY_ENDS = _split("Bank Motors Steel Foods Airways United Holdings Press")
DAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _split("January March April June July October November")
THINGS = _split(
    "bridge castle canal church factory fountain garden hall harbor hospital hotel library market "
    "mill museum palace school stadium station theater tower tunnel university zoo"
)
FUNCTION_WORDS = _split(
    "the a an of in on at by to for and but although with from is was were are has had have it "
    "its this that , . ? who when where how many which what whose person year number place near "
    "does do did there while after before said told beat won lost against percent shares rose "
    "fell match people reporters officials visitors rooms seats stands opened built designed "
    "architect drew located site found take hold holds open first made plans planned dates since "
    "about city river lake hill north south old some all part both most cup league talks minister "
    "chairman coach player company team town police met visit left met arrived signed deal world "
    "final season"
)
