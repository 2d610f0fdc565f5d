# ruff: noqa: RUF001 - Cyrillic letters that look like Latin ones
"""Made-up texts of the kinds that tools return: each a function of a random source and a length.

The one rule: a text is of one kind throughout, so that a wrong estimate shows under its name.
"""

import base64
import json
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

Kind = Callable[[Random], Iterator[str]]
"""The pieces of an endless text, to be joined."""


def make_text(kind: str, chars: int, seed: int = 0) -> str:
    """Return this many characters of a kind in `KINDS`; the same for the same seed."""
    pieces = KINDS[kind](Random(f"{kind} {seed}"))
    made: list[str] = []
    length = 0
    while length < chars:
        made.append(next(pieces))
        length += len(made[-1])
    return "".join(made)[:chars]


def make_tools(chars: int, seed: int = 0) -> list[dict[str, object]]:
    """Return tool schemas with at least so many characters as compact JSON."""
    random = Random(f"tools {seed}")
    tools: list[dict[str, object]] = []
    length = 0
    while length < chars:
        tools.append(_make_tool(random, len(tools)))
        length += len(_compact(tools[-1]))
    return tools


def _split(words: str) -> list[str]:
    return words.split()


_WORDS = _split(
    "the of and to in is that it for was on are with as be at this have from or had by not but "
    "what all were when we there can an your which their said if do will each about how up out "
    "them then she many some so these would other into has more her two like him see time could "
    "no make than first been its who now people my made over did down only way find use may water "
    "long little very after words called just where most know get through back much before go "
    "good new write our used me man too any day same right look think also around another came "
    "come work three word must because does part even place well such here take why things help "
    "put years different away again off went old number great tell men say small every found "
    "server request response configuration database connection timeout retry handler session "
    "parameter deprecated implementation performance throughput latency authentication module "
    "repository environment variable dependency container kubernetes orchestration deployment "
    "asynchronous serialization middleware heterogeneous idempotent observability"
)

_NAMES = _split(
    "get_user set_value parse_config readLines writeFile handleRequest UserService HttpClient "
    "max_retries buffer_size is_valid to_json from_dict _private __init__ self cls args kwargs "
    "responseBody onClick useState useEffect componentDidMount createElement querySelector "
    "TokenBucket RateLimiter SessionStore LRUCache parseInt toString mapToObj index value items "
    "result node parent children left right width height offset limit cursor payload headers"
)

_CHINESE = _split(
    "系统 可以 使用 数据 用户 服务器 请求 配置 文件 如果 需要 我们 这个 问题 进行 通过 时间 信息 "
    "处理 方法 返回 结果 的 了 在 是 和 不 有 对 为 这 一个 没有 因为 所以 但是 已经 可能 应该 "
    "重要 开发 测试 性能 连接 缓存 应用 程序 代码 错误 支持 功能 网络 安全 更新 版本 管理 操作 "
    "目前 首先 然后 最后 同时 部分 提供 实现 设计 运行 更多 内容 选择 例如 当前 状态 必须 说明"
)

_JAPANESE = _split(
    "は が を に の で と も から まで です ます した する これ それ この その システム ユーザー "
    "サーバー リクエスト データ 設定 ファイル 必要 場合 使用 できる ください ありません について "
    "確認 方法 問題 処理 結果 時間 情報 という ために また しかし そして 変更 追加 実行 接続 "
    "エラー 発生 アプリケーション 開発 テスト 機能 利用 可能 ところ している されます ように もの"
)

_KOREAN = _split(
    "시스템은 사용자가 서버에 요청을 보내면 데이터를 처리하고 결과를 반환합니다 설정 파일에서 "
    "값을 변경할 수 있습니다 이 그 저 것은 때문에 그러나 그리고 또한 만약 필요한 경우에는 다음과 "
    "같은 방법으로 연결이 끊어지면 오류가 발생합니다 테스트를 실행하려면 먼저 환경을 준비해야 "
    "합니다 성능을 개선하기 위해 캐시를 사용하는 것이 좋습니다 문제를 해결하는 "
    "새로운 기능이 추가되었습니다"
)

_RUSSIAN = _split(
    "система пользователь сервер запрос данные настройки файл если нужно можно использовать "
    "этот проблема через время информация обработка метод возвращает результат и в не на что "
    "он быть с как это по но из у за то все так его для мы при также или когда чтобы очень "
    "разработка тестирование производительность соединение приложение программа ошибка "
    "поддерживает функция сеть безопасность обновление версия управление сначала затем потом "
    "предоставляет реализация необходимо следующий конфигурация подключение"
)

_ARABIC = _split(
    "النظام يمكن استخدام البيانات المستخدم الخادم الطلب الإعدادات الملف إذا كان من في على إلى "
    "هذا التي الذي مع عن لا ما هو هي أو ثم لأن المعلومات معالجة طريقة نتيجة خطأ الاتصال تطبيق "
    "برنامج الشبكة الأمان تحديث إصدار إدارة"
)

_HINDI = _split(
    "यह है और के में की से को पर एक लिए हैं नहीं कर सकते उपयोगकर्ता सर्वर अनुरोध डेटा फ़ाइल यदि "
    "समय जानकारी परिणाम त्रुटि नेटवर्क सुरक्षा संस्करण प्रबंधन प्रणाली विकास परीक्षण समस्या"
)

_THAI = _split(
    "ระบบ ผู้ใช้ ข้อมูล เซิร์ฟเวอร์ คำขอ ไฟล์ ถ้า สามารถ ใช้ ได้ ไม่ ที่ และ ใน การ เป็น ของ นี้ มี "
    "จะ ให้ ผลลัพธ์ ข้อผิดพลาด เครือข่าย ความปลอดภัย เวลา วิธี ปัญหา พัฒนา ทดสอบ"
)

_FRENCH = _split(
    "le la les de des un une et est en que pour dans ce qui sur pas plus par avec tout faire "
    "son mettre autre on mais nous comme ou si leur y dire elle devoir avant deux même prendre "
    "aussi celui donner bien où fois vous encore nouveau aller cela entre premier vouloir déjà "
    "grand mon me moins aucun lui temps très savoir falloir voir quelque sans raison notre dont "
    "résultat requête réponse paramètre données système réseau développement sécurité élément"
)


def _prose(words: list[str], between: str, stop: str) -> Kind:
    def make(random: Random) -> Iterator[str]:
        while True:
            sentence = between.join(random.choices(words, k=random.randint(6, 18)))
            yield sentence[0].upper() + sentence[1:] + stop
            if random.random() < 0.15:
                yield "\n\n"

    return make


def _padded_table(random: Random) -> Iterator[str]:
    yield "  line   column  severity".ljust(420) + "rule\n"
    while True:
        row = f"  {random.randint(1, 900)}:{random.randint(1, 99)}".ljust(12) + "error  "
        row += " ".join(random.choices(_WORDS, k=random.randint(4, 9)))
        yield row.ljust(420) + random.choice(("no-unused-vars", "indent", "semi")) + "\n"


def _box_table(random: Random) -> Iterator[str]:
    while True:
        cells = [" ".join(random.choices(_WORDS, k=2)).ljust(22) for _ in range(4)]
        yield "│ " + " │ ".join(cells) + " │\n"
        yield "├" + "┼".join(["─" * 24] * 4) + "┤\n"


def _records(random: Random) -> Iterator[dict[str, object]]:
    for number in count():
        yield {
            "id": number,
            "name": " ".join(random.choices(_WORDS, k=2)),
            "email": f"{random.choice(_WORDS)}@example.com",
            "active": random.random() < 0.5,
            "score": round(random.random() * 100, 2),
            "tags": random.choices(_WORDS, k=3),
            "parent": None,
            "createdAt": f"2025-{random.randint(1, 12):02}-{random.randint(1, 28):02}T08:30:00Z",
        }


def _json_compact(random: Random) -> Iterator[str]:
    return (_compact(record) + "," for record in _records(random))


def _json_pretty(random: Random) -> Iterator[str]:
    for record in _records(random):
        lines = json.dumps(record, indent=4).splitlines()
        yield "".join(f"        {line}\n" for line in lines)


def _base64(random: Random) -> Iterator[str]:
    while True:
        yield base64.b64encode(random.randbytes(57)).decode()


def _base64_lines(random: Random) -> Iterator[str]:
    return (line + "\n" for line in _base64(random))


def _hex_dump(random: Random) -> Iterator[str]:
    for number in count():
        data = random.randbytes(16)
        shown = "".join(chr(b) if 32 <= b < 127 else "." for b in data)
        yield f"{number * 16:08x}: {data.hex(' ', 2)}  {shown}\n"


def _hashes(random: Random) -> Iterator[str]:
    while True:
        yield f"{random.randbytes(32).hex()}  {random.choice(_NAMES)}.py\n"


def _hex(random: Random) -> Iterator[str]:
    while True:
        yield random.randbytes(64).hex()


def _uuids(random: Random) -> Iterator[str]:
    while True:
        digits = random.randbytes(16).hex()
        yield "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) + "\n"


def _python(random: Random) -> Iterator[str]:
    while True:
        name, first, second, third = random.choices(_NAMES, k=4)
        default = random.randint(0, 99)
        yield f"    def {name}(self, {first}: str, {second}: int = {default}) -> None:\n"
        yield f'        """{" ".join(random.choices(_WORDS, k=8)).capitalize()}."""\n'
        yield f"        if {first} is None or not self.{second}:\n"
        yield f'            raise ValueError(f"{random.choice(_WORDS)} {{{first}!r}}")\n'
        yield f"        self.{third} = [{second}.{name}({first}) for {first} in self.{second}]\n"
        yield f"        return {third}\n\n"


def _numbered(random: Random) -> Iterator[str]:
    for number, line in enumerate("".join(p) for p in zip(_python(random), strict=False)):
        yield f"{number + 1:6}\t{line}"


def _minified(random: Random) -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    while True:
        a, b, c, d = random.choices(letters, k=4)
        one, two = random.choices(_NAMES, k=2)
        yield f"function {a}({b},{c}){{var {d}={b}.{one}||{{}};return {c}?{d}.{two}({b}):null}}"
        yield f"!function(){{{a}.prototype.{two}=function({d}){{this.{one}={d};}}}}();"
        yield f'{c}=({a},{b})=>{a}&&{b}["{one}"]!=={random.randint(0, 999)}?{a}:void 0;'


def _log(random: Random) -> Iterator[str]:
    for number in count():
        seconds = f"{number // 60 % 60:02}:{number % 60:02}.{random.randint(0, 999):03}"
        level = random.choice(("INFO", "DEBUG", "WARNING", "ERROR"))
        yield f"2025-11-{number // 9000 % 28 + 1:02}T08:{seconds}Z [{level}] "
        yield f"{random.choice(_NAMES)}[{random.randint(100, 99999)}]: "
        yield " ".join(random.choices(_WORDS, k=random.randint(3, 9)))
        yield f" status={random.choice((200, 404, 500))} dur={random.randint(1, 900)}ms\n"


def _listing(random: Random) -> Iterator[str]:
    while True:
        size, day = random.randint(1, 9_999_999), random.randint(1, 28)
        yield f"-rw-r--r--  1 root root {size:8} Nov {day:2} {random.randint(0, 23):02}:17 "
        yield f"{random.choice(_NAMES)}_{random.choice(_WORDS)}.py\n"


def _paths(random: Random) -> Iterator[str]:
    while True:
        folders = "/".join(random.choices(_WORDS, k=random.randint(2, 5)))
        yield f"./src/{folders}/{random.choice(_NAMES)}.test.tsx\n"


def _ansi(random: Random) -> Iterator[str]:
    for number in count():
        yield f"\x1b[1mtests/test_{random.choice(_WORDS)}.py\x1b[0m::test_{random.choice(_NAMES)} "
        yield f"\x1b[32mPASSED\x1b[0m\x1b[36m [{number % 101:3}%]\x1b[0m\r\n"


def _csv(random: Random) -> Iterator[str]:
    while True:
        yield ",".join(f"{random.uniform(-1000, 1000):.4f}" for _ in range(8)) + "\n"


def _integers(random: Random) -> Iterator[str]:
    while True:
        yield " ".join(f"{random.randint(0, 65535)}" for _ in range(16)) + "\n"


def _diff(random: Random) -> Iterator[str]:
    lines = _python(random)
    while True:
        path, start = random.choice(_NAMES), random.randint(1, 900)
        yield f"diff --git a/src/{path}.py b/src/{path}.py\nindex {random.randbytes(4).hex()}.."
        yield f"{random.randbytes(4).hex()} 100644\n--- a/src/{path}.py\n+++ b/src/{path}.py\n"
        yield f"@@ -{start},7 +{start},9 @@ class {random.choice(_NAMES)}:\n"
        yield "".join(random.choice("  +-") + next(lines) for _ in range(9))


def _html(random: Random) -> Iterator[str]:
    while True:
        words, path = " ".join(random.choices(_WORDS, k=5)), random.choice(_NAMES)
        yield f'<div class="mt-4 flex {random.choice(_NAMES)}" data-id="{random.randint(1, 999)}">'
        yield f'<a href="/{random.choice(_WORDS)}/{path}?page=2">{words}</a></div>\n'


def _emoji(random: Random) -> Iterator[str]:
    while True:
        yield f"{random.choice('✅❌🚀🔥⚠📦🎉🐛💡')} {' '.join(random.choices(_WORDS, k=4))}\n"


def _rules(random: Random) -> Iterator[str]:
    while True:
        yield random.choice("=-*#_~") * random.randint(30, 100) + "\n"
        yield " ".join(random.choices(_WORDS, k=random.randint(1, 4))).upper() + "\n"


def _progress(random: Random) -> Iterator[str]:
    for number in count():
        done = number % 51
        yield f"\rDownloading {done * 2:3}% |{'█' * done}{' ' * (50 - done)}| {number}/5000 [00:12<"


def _schemas(random: Random) -> Iterator[str]:
    return (_compact(_make_tool(random, number)) + "," for number in count())


def _make_tool(random: Random, number: int) -> dict[str, object]:
    properties = {
        name: {
            "type": random.choice(("string", "integer", "boolean")),
            "description": " ".join(random.choices(_WORDS, k=random.randint(8, 24))).capitalize(),
        }
        for name in random.sample(_NAMES, k=random.randint(1, 6))
    }
    function = {
        "name": f"{random.choice(_WORDS)}_{random.choice(_WORDS)}_{number}",
        "description": " ".join(random.choices(_WORDS, k=random.randint(30, 160))).capitalize(),
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": list(properties)[:2],
            "additionalProperties": False,
        },
    }
    return {"type": "function", "function": function}


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


KINDS: dict[str, Kind] = {
    "English prose": _prose(_WORDS, " ", ". "),
    "French prose": _prose(_FRENCH, " ", ". "),
    "Russian": _prose(_RUSSIAN, " ", ". "),
    "Arabic": _prose(_ARABIC, " ", ". "),
    "Hindi": _prose(_HINDI, " ", "। "),
    "Thai": _prose(_THAI, "", " "),
    "Chinese": _prose(_CHINESE, "", "。"),
    "Japanese": _prose(_JAPANESE, "", "。"),
    "Korean": _prose(_KOREAN, " ", ". "),
    "padded table": _padded_table,
    "table in boxes": _box_table,
    "JSON, compact": _json_compact,
    "JSON, indented": _json_pretty,
    "tool schemas": _schemas,
    "base64 in one line": _base64,
    "base64 in lines": _base64_lines,
    "hexadecimal in one line": _hex,
    "hexadecimal dump": _hex_dump,
    "hashes": _hashes,
    "UUIDs": _uuids,
    "Python": _python,
    "Python with line numbers": _numbered,
    "minified JavaScript": _minified,
    "log with timestamps": _log,
    "ls -l": _listing,
    "paths": _paths,
    "ANSI colours": _ansi,
    "CSV of decimals": _csv,
    "integers": _integers,
    "diff": _diff,
    "HTML": _html,
    "emoji": _emoji,
    "rules": _rules,
    "progress bar": _progress,
}
"""By a name that a reader understands."""
