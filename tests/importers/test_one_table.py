"""Visits and orders in one table, logs of pairs, labels, refunds in other columns, and words of halves of days."""

import json

import pytest

import attrib_ds as at
from attrib_ds.importers.content import evidence, files

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")


@pytest.fixture
def read(tmp_path):
    """Read text files; return values and persons by order, and the persons with their nodes and times."""

    def read_texts(*contents, name="table.csv"):
        paths = []
        for at_place, content in enumerate(contents):
            paths.append(tmp_path / f"{at_place}{name}")
            paths[-1].write_bytes(content if isinstance(content, bytes) else content.encode())
        journeys = at.read_journeys(*paths)
        events = journeys.events
        amount = next(each for each in events if each.startswith("statistics.revenue"))
        orders = zip(events["event.sourceId"], events["user.vendorUserId"], events[amount], strict=True)
        people = [json.loads(each)["vendorUserId"] for each in journeys.interactions["userData"]]
        times = journeys.interactions["startDate"].dt.strftime("%m-%d %H:%M")
        touches = zip(people, journeys.interactions["nodeId"], times, strict=True)
        return {order: (user, value) for order, user, value in orders}, sorted(touches)

    return read_texts


ORDERS = {"A-1": ("u-1", 20.5), "A-2": ("u-2", 40.0)}
TOUCHES = [("u-1", "google/cpc", "09-01 08:00"), ("u-2", "news/email", "09-02 08:00")]
SPANISH = """hecho;momento;cliente;utm_source;utm_medium;pedido;importe
visita;2025-09-01 08:00;u-1;google;cpc;;
compra;2025-09-01 09:00;u-1;;;A-1;20,50
visita;2025-09-02 08:00;u-2;news;email;;
compra;2025-09-02 09:00;u-2;;;A-2;60,00
reembolso;2025-09-03 09:00;u-2;;;A-2;-20,00
"""
PAIRS = """2025-09-01T08:00:00Z INFO visit user=u-1 utm_source=google utm_medium=cpc
2025-09-01T09:00:00Z INFO paid user=u-1 order=A-1 amount=20.50
2025-09-02T08:00:00Z INFO visit user=u-2 utm_source=news utm_medium=email
2025-09-02T08:30:00Z WARN payment_failed user=u-2 order=A-2 amount=60.00
2025-09-02T09:00:00Z INFO paid user=u-2 order=A-2 amount=60.00
2025-09-03T09:00:00Z INFO refunded user=u-2 order=A-2 amount=20.00
"""
LINES = "\n".join(
    json.dumps({"who": {"user_id": user}, "when": f"2025-09-{at}:00Z", "what": what, "data": data})
    for user, at, what, data in [
        ("u-1", "01T08:00", "visit", {"utm_source": "google", "utm_medium": "cpc"}),
        ("u-1", "01T09:00", "sold", {"order_id": "A-1", "total": "20.50"}),
        ("u-2", "02T08:00", "visit", {"utm_source": "news", "utm_medium": "email"}),
        ("u-2", "02T08:10", "scroll", {}),
        ("u-2", "02T09:00", "sold", {"order_id": "A-2", "total": "40.00"}),
        ("u-2", "02T09:00", "sold", {"order_id": "A-2", "total": "40.00"}),
    ]
)


@pytest.mark.parametrize(
    ("text", "name"), [(SPANISH, "a.csv"), (PAIRS, "b.log"), (LINES, "c.jsonl")], ids=["csv", "pairs", "json"]
)
def test_visits_and_orders_in_one_table_are_told_apart(read, text, name):
    assert read(text, name=name) == (ORDERS, TOUCHES)


def test_an_order_beside_its_own_source_is_no_visit_without_one(read):
    # Each row has a source and some have an amount: nothing says which rows are orders.
    text = "user,utm_source,time,revenue\nu,google,2025-09-01,\nu,bing,2025-09-02,5.50\n"
    with pytest.raises(at.errors.InvalidRequest, match="looks like the flag"):
        read(text)


VISITS = "user,channel,time\nu-1,Search,2025-09-01 08:00\nu-2,Mail,2025-09-02 08:00\n"


def test_refunds_in_rows_of_their_own_may_be_in_another_column(read):
    text = """user,order_id,time,status,total,refund_amount
`u-1,`A-1,`2025-09-01 09:00,`SUCCESS,`20.50,`0.00
`u-2,`A-2,`2025-09-02 09:00,`SUCCESS,`60.00,`0.00
`u-2,`A-2,`2025-09-03 09:00,`REFUND,`0.00,`20.00
"""
    assert read(VISITS, text)[0] == ORDERS


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        # What is given back in part stays; what is cancelled as a whole does not count.
        ("결제금액,취소금액", ["20.50,0,완료", "60.00,20.00,부분취소", "15.00,15.00,취소"]),
        (
            "importe,reembolsos",
            ["20.50,0,pagado", "60.00,-20.00,devolución parcial", "15.00,-15.00,cancelado"],
        ),
        ("сумма,возврат", ["20.50,0,оплачен", "60.00,20.00,частичный возврат", "15.00,15.00,отменён"]),
    ],
)
def test_what_is_given_back_in_part_is_subtracted(read, names, rows):
    lines = [f"A-{number},u-{number},2025-09-0{number} 09:00,{row}" for number, row in enumerate(rows, 1)]
    assert read(VISITS, "\n".join([f"order id,user,date,{names},status", *lines]))[0] == ORDERS


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("स्थिति", ["सफल", "सफल", "विफल", "धनवापसी"]),
        ("Күйі", ["Берілді", "Берілді", "Бас тартылды", "Қайтарылды"]),
    ],
)
def test_more_languages_say_which_rows_count(read, status, words):
    rows = [("A-1", "u-1", 20.5), ("A-2", "u-2", 40), ("A-3", "u-1", 7), ("A-4", "u-2", 8)]
    lines = [
        f"{order},{user},2025-09-02 09:00,{value},{word}"
        for (order, user, value), word in zip(rows, words, strict=True)
    ]
    assert read(VISITS, "\n".join([f"order id,user,date,total,{status}", *lines]))[0] == ORDERS


@pytest.mark.parametrize(
    "names", ["Anslået lukkedato,Faktisk lukkedato", "Expected close date,Actual close date"]
)
def test_a_date_that_is_estimated_comes_second(names, tmp_path):
    file = tmp_path / "deals.csv"
    row = "1,a@x.example,5,Fair,Won,2025-09-30,2025-09-02"
    file.write_text(f"deal id,email,value,source,stage,{names}\n{row}\n", encoding="utf-8")
    assert at.read_journeys(file).events["eventDate"].dt.strftime("%m-%d").tolist() == ["09-02"]


def test_a_total_that_lacks_the_refunds_already_keeps_its_value(read):
    lines = ["A-1,u-1,2025-09-01 09:00,20.50,0,20.50", "A-2,u-2,2025-09-02 09:00,60.00,-20.00,40.00"]
    assert read(VISITS, "\n".join(["order id,user,date,income,refunds,total", *lines]))[0] == ORDERS


def test_a_column_of_given_back_amounts_is_subtracted_by_its_state(read):
    text = "user,order_id,time,total €,Grąžinta €\nu-1,A-1,2025-09-01 09:00,20.50,0.00\n"
    text += "u-2,A-2,2025-09-02 09:00,60.00,20.00\nSum,,,80.50,20.00\n"
    assert read(VISITS, text)[0] == ORDERS


def test_labels_below_the_header_name_their_columns(read):
    survey = """Email,EndDate,Q1,Q2,Finished
Email,End Date,How did you hear about us?,Anything else?,Finished
"{""ImportId"": ""email""}","{""ImportId"": ""end""}","{""ImportId"": ""QID1""}","{""ImportId"": ""QID2""}","{""ImportId"": ""done""}"
u-1,2025-09-01 08:00,Podcast,no,True
u-2,2025-09-02 08:00,A friend,,True
"""
    orders = "email,order_id,time,total\nu-1,A-1,2025-09-01 09:00,20.50\nu-2,A-2,2025-09-02 09:00,40.00\n"
    expected = [("u-1", "Podcast", "09-01 08:00"), ("u-2", "A friend", "09-02 08:00")]
    assert read(survey, orders) == (ORDERS, expected)


@pytest.mark.parametrize(
    ("day", "said"), [("2025-09-01", "the date is Ended, the only"), ("1990-09-01", ""), ("2099-09-01", "")]
)
def test_the_only_instants_are_dates_unless_they_are_of_births_or_to_come(day, said, tmp_path):
    (tmp_path / "visits.csv").write_text(f"user,channel,Ended\nu-1,Search,{day}\nu-2,Mail,{day}\n")
    orders = "user,order_id,time,total\nu-1,A-1,2025-09-01 09:00,20.50\n"
    (tmp_path / "orders.csv").write_text(orders)
    files_of = (tmp_path / "visits.csv", tmp_path / "orders.csv")
    if said:
        assert said in at.read_journeys(*files_of).notes[0]
    else:
        with pytest.raises(at.errors.InvalidRequest, match="read as a date|looks like the date"):
            at.read_journeys(*files_of)


def test_the_instant_of_a_source_shares_a_word_of_its_name(read):
    text = """Order no,Order time,Customer,Arrival source,Arrival time,Total
A-1,2025-09-01 09:00,u-1,Search,2025-09-01 08:00,20.50
A-2,2025-09-02 09:00,u-2,Mail,2025-09-02 08:00,40.00
"""
    assert read(text) == (ORDERS, [("u-1", "Search", "09-01 08:00"), ("u-2", "Mail", "09-02 08:00")])


def test_a_word_for_people_in_each_value_tells_their_column(read):
    text = """conversion_id,click_unix_timestamp,conversion_unix_timestamp,partner,adv2,status,sale_amount
A-1,1756713600,1756717200,DealHub,client_71,approved,20.50
A-2,1756800000,1756803600,BlogOne,client_72,approved,40.00
A-3,1756800000,1756803600,BlogOne,client_72,rejected,40.00
"""
    orders = {"A-1": ("client_71", 20.5), "A-2": ("client_72", 40.0)}
    expected = [("client_71", "DealHub", "09-01 08:00"), ("client_72", "BlogOne", "09-02 08:00")]
    assert read(text) == (orders, expected)


def test_numbers_of_orders_that_look_like_seconds_are_no_dates(read):
    text = "Номер заказа;Дата;Email;Сумма;utm_source;utm_medium\n"
    text += (
        "1741930951;2025-09-01 08:00;u-1;20,50;google;cpc\n1742057110;2025-09-02 08:00;u-2;40,00;news;email\n"
    )
    orders = {"1741930951": ("u-1", 20.5), "1742057110": ("u-2", 40.0)}
    assert read(text) == (orders, TOUCHES)


@pytest.mark.parametrize(
    ("encoding", "header", "row"),
    [
        ("cp1257", "pirkėjas;užsakymo data;užsakymo nr;iš viso €;būsena", "apmokėtas"),
        ("cp1255", "לקוח;תאריך;מספר הזמנה;סכום;סטטוס", "שולם"),
        ("cp1256", "العميل;التاريخ;رقم الطلب;المبلغ;الحالة", "مدفوع"),
        ("cp874", "ลูกค้า;วันที่;เลขที่คำสั่งซื้อ;ยอดรวม;สถานะ", "ชำระเงินแล้ว"),
    ],
)
def test_more_code_pages_are_told_by_their_words(encoding, header, row, tmp_path):
    (tmp_path / "a.csv").write_bytes(f"{header}\n{row};1\n{row};2\n".encode(encoding))
    said = []
    assert files._encoding(tmp_path / "a.csv", "conversions", None, said) == encoding


def test_events_without_a_page_are_no_visits(read):
    lines = [
        {"user_id": "u-1", "timestamp": "2025-09-01T07:00:00Z", "event": "delivered"},
        {"user_id": "u-1", "timestamp": "2025-09-01T08:00:00Z", "event": "click",
         "url": "https://shop.example/?utm_source=google&utm_medium=cpc"},
        {"user_id": "u-2", "timestamp": "2025-09-02T08:00:00Z", "event": "click",
         "url": "https://shop.example/?utm_source=news&utm_medium=email"},
    ]  # fmt: skip
    orders = "user_id,order_id,time,total\nu-1,A-1,2025-09-01 09:00,20.50\nu-2,A-2,2025-09-02 09:00,40.00\n"
    assert read("\n".join(map(json.dumps, lines)), orders, name="c.jsonl") == (ORDERS, TOUCHES)


def test_halves_of_days_and_digits_are_read_in_arabic(read):
    visits = "user,channel,time\nu-1,Search,١ سبتمبر ٢٠٢٥ ٨:٠٠ ص\nu-2,Mail,٢ سبتمبر ٢٠٢٥ ١٠:٠٠ م\n"
    orders = "user,order_id,time,total (ج.م)\nu-1,A-1,٣ سبتمبر ٢٠٢٥ ٨:٠٠ ص,٢٠٫٥٠\nu-2,A-2,٣ سبتمبر ٢٠٢٥ ٩:٠٠ م,٤٠٫٠٠\n"
    expected = [("u-1", "Search", "09-01 08:00"), ("u-2", "Mail", "09-02 22:00")]
    assert read(visits, orders) == (ORDERS, expected)


def test_names_in_cyrillic_are_those_in_latin():
    assert evidence.weight("value", "Износ") == evidence.weight("value", "Iznos") > 0
    assert evidence.names_level("source", "Извор")


@pytest.mark.parametrize(
    ("header", "opened", "clicked", "delivered"),
    [
        ("Événement", "Ouvert", "Cliqué", "Délivré"),
        ("Ereignis", "Geöffnet", "Geklickt", "Zugestellt"),
        ("Evento", "Abierto", "Clic", "Entregado"),
        ("Gebeurtenis", "Geopend", "Geklikt", "Bezorgd"),
        ("Zdarzenie", "Otwarto", "Kliknięto", "Dostarczono"),
        ("Hvad", "Åbnet", "Klikket", "Ikke åbnet"),
        ("Событие", "Открыто", "Клик", "Доставлено"),
        ("Olay", "Açıldı", "Tıklandı", "Teslim edildi"),
        ("Olay", "Açıldı", "Tıklandı", "Gönderildi"),
        ("種類", "開封", "クリック", "配信"),
        ("Stav", "Otvorené", "Kliknuté", "Doručené"),
    ],
)
def test_mails_that_nobody_saw_are_no_touchpoints_in_any_language(header, opened, clicked, delivered, read):
    mails = f"""{header},time,user,campaign
{delivered},2025-09-01 06:00,u-1,March
{opened},2025-09-01 08:00,u-1,March
{delivered},2025-09-02 06:00,u-2,April
{clicked},2025-09-02 08:00,u-2,April
{delivered},2025-09-02 07:00,u-2,March
"""
    orders = "user,order_id,time,total\nu-1,A-1,2025-09-03 09:00,20.50\nu-2,A-2,2025-09-03 09:30,40.00\n"
    assert read(mails, orders) == (ORDERS, [("u-1", "March", "09-01 08:00"), ("u-2", "April", "09-02 08:00")])


def test_the_category_is_the_node_of_a_log_of_mails_in_json(read):
    mails = [
        {"email": f"u-{who}@x.example", "timestamp": at_, "event": event, "category": [category], "response": "250 OK"}
        for who, at_, event, category in [
            (1, "2025-09-01T06:00:00Z", "delivered", "March"), (1, "2025-09-01T08:00:00Z", "open", "March"),
            (2, "2025-09-02T06:00:00Z", "delivered", "April"), (2, "2025-09-02T08:00:00Z", "click", "April"),
        ]
    ]  # fmt: skip
    orders = "email,order_id,time,total\nu-1@x.example,A-1,2025-09-03 09:00,20.50\n"
    assert read(json.dumps(mails), orders, name="c.json") == (
        {"A-1": ("u-1@x.example", 20.5)},
        [("u-1@x.example", "March", "09-01 08:00"), ("u-2@x.example", "April", "09-02 08:00")],
    )


@pytest.mark.parametrize(
    ("encodings", "header"),
    [
        ("cp1252 mac_roman cp850", "Zeitpunkt;E-Mail;Geschäftsjahr;Größenklasse;Schlüssel"),
        ("cp1252 mac_roman cp850", "Horodatage;Courriel;Média;Étape;Prénom"),
        ("cp1252 mac_roman cp850", "Momento;Correo;Campaña;Categoría;Situación"),
        ("cp1252 mac_roman", "Momento;E-mail;Modalità;Attività;Società"),
        ("cp1252", "Data;E-mail;Origem;Mídia;Campanha"),
        ("cp1252 mac_roman cp850", "Momento;E-mail;Promoção;Conteúdo;Negócio"),
        ("cp1252 mac_roman", "Tid;E-post;Värde;Köpare;Länk"),
        ("cp1252", "Tid;E-mail;Værdi;Sæson;Kundenøgle"),
        ("cp1252 mac_roman cp850", "Aika;Kävijä;Sähköposti;Määrä;Lähde"),
        ("cp1250 iso8859_2 cp852", "Czas;E-mail;Łączna kwota;Żródło;Płeć"),
        ("cp1250 iso8859_2 cp852", "Čas;E-mail;Příjemce;Kampaň;Částka"),
        ("cp1250 iso8859_2", "Čas;E-mail;Kampaň;Dátum;Predajňa"),
        ("cp1250 iso8859_2 cp852", "Időpont;E-mail;Forrás;Médium;Kampány"),
        ("cp1250 iso8859_2", "Vrijeme;E-mail;Tražilica;Plaćanje;Košarica"),
        ("cp1254 cp857", "Zaman;E-posta;Mağaza;Müşteri adı;Çağrı"),
        ("cp1251 koi8_r cp866", "Время;E-mail;Рекламная кампания;Выручка"),
        ("cp1251 koi8_u", "Час;E-mail;Рекламна кампанія;Виручка"),
        ("cp1251", "Време;E-mail;Рекламна кампания;Стойност"),
        ("cp1253 iso8859_7", "Χρόνος;E-mail;Διαφήμιση;Αξία"),
        ("cp1257", "Laikas;E. paštas;Pirkėjo šalis;Žiniasklaida"),
        ("cp1257", "Laiks;E-pasts;Pircēja valsts;Kampaņa"),
        ("cp1257", "Aeg;E-post;Põhjus;Müügikoht;Jõulud"),
        ("cp932 euc_jp", "時刻;メールアドレス;広告媒体;売上"),
        ("gb18030", "时刻;邮件地址;广告来源;销售额"),
    ],
)
def test_letters_that_occur_together_tell_encodings(encodings, header, tmp_path):
    for encoding in encodings.split():
        (tmp_path / "a.csv").write_bytes(f"{header}\n1;a@x.example;x;y;z\n".encode(encoding))
        found = files._encoding(tmp_path / "a.csv", "conversions", None, [])
        assert header.encode(encoding).decode(found) == header


def test_a_letter_between_digits_is_a_mark_of_thousands(tmp_path):
    """Mac Roman reads the apostrophe of Windows as í."""
    (tmp_path / "a.csv").write_bytes("Nr;Betrag CHF\n1;2’400.00\n".encode("cp1252"))
    assert files._encoding(tmp_path / "a.csv", "conversions", None, []) == "cp1252"
