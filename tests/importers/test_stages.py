"""Statuses and stages of deals and orders in many languages, and those that nobody knows."""

import pytest
from support.own_files import read_files

from attrib_ds.errors import InputWarning
from attrib_ds.importers.content.rows import class_of

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")

#: Won, lost and open deals; orders that are paid, unpaid, cancelled, refunded and failed.
STAGES = {
    "en": "Closed won|Closed lost|Negotiation|Paid|Unpaid|Cancelled|Refunded|Failed",
    "de": "Gewonnen|Verloren|Verhandlung|Bezahlt|Unbezahlt|Storniert|Erstattet|Fehlgeschlagen",
    "fr": "Gagné|Perdu|Négociation|Payée|Impayée|Annulée|Remboursé|Échoué",
    "es": "Ganado|Perdido|Negociación|Pagado|Sin pagar|Cancelado|Devuelto|Fallido",
    "pt": "Ganho|Perdido|Negociação|Pago|Não pago|Cancelado|Reembolsado|Falhou",
    "it": "Vinto|Perso|Trattativa|Pagato|Non pagato|Annullato|Rimborsato|Fallito",
    "nl": "Gewonnen|Verloren|Onderhandeling|Betaald|Onbetaald|Geannuleerd|Terugbetaald|Mislukt",
    "pl": "Wygrane|Przegrane|Negocjacje|Opłacone|Nieopłacone|Anulowane|Zwrócone|Odrzucone",
    "cs": "Vyhráno|Prohráno|Jednání|Zaplaceno|Nezaplaceno|Zrušeno|Vráceno|Zamítnuto",
    "sk": "Vyhraté|Prehraté|Rokovanie|Zaplatené|Nezaplatené|Zrušená|Vrátené|Zamietnuté",
    "hu": "Megnyert|Elvesztett|Tárgyalás|Fizetve|Kifizetetlen|Törölve|Visszafizetve|Sikertelen",
    "ro": "Câștigat|Pierdut|Negociere|Achitat|Neachitat|Anulat|Rambursat|Eșuat",
    "sv": "Vunnen|Förlorad|Förhandling|Betald|Obetald|Avbruten|Återbetald|Misslyckad",
    "da": "Vundet|Tabt|Forhandling|Betalt|Ikke betalt|Annulleret|Refunderet|Afvist",
    "nb": "Vunnet|Tapt|Forhandling|Betalt|Ubetalt|Kansellert|Tilbakebetalt|Mislyktes",
    "fi": "Voitettu|Hävitty|Neuvottelu|Maksettu|Maksamatta|Peruttu|Palautettu|Hylätty",
    "tr": "Kazanıldı|Kaybedildi|Müzakere|Ödendi|Ödenmedi|İptal edildi|İade edildi|Reddedildi",
    "ru": "Успешно реализовано|Закрыто и не реализовано|Переговоры|Оплачен|Не оплачен|Отменён|Возврат|Ошибка",
    "uk": "Успішно реалізовано|Програно|Переговори|Оплачено|Не оплачено|Скасовано|Повернено|Відхилено",
    "el": "Κερδισμένη|Χαμένη|Διαπραγμάτευση|Πληρωμένη|Απλήρωτη|Ακυρώθηκε|Επιστράφηκε|Απορρίφθηκε",
    "ja": "受注|失注|交渉中|入金済み|未入金|キャンセル|返金済み|失敗",
    "ko": "수주|실주|협상|결제완료|미결제|취소|환불|거절",
    "zh": "赢单|输单|谈判|已付款|未付款|已取消|已退款|已过期",
    "ar": "مكسوبة|خسارة|تفاوض|مدفوع|غير مدفوع|ملغي|مسترد|مرفوض",
    "he": "זכייה|הפסד|משא ומתן|שולם|לא שולם|בוטל|הוחזר|נדחה",
    "hi": "जीता|हारा|बातचीत|भुगतान किया गया|भुगतान नहीं किया गया|रद्द|धनवापसी|विफल",
    "id": "Menang|Kalah|Negosiasi|Lunas|Belum dibayar|Dibatalkan|Dikembalikan|Gagal",
    "vi": "Thắng|Thua|Đàm phán|Đã thanh toán|Chưa thanh toán|Đã hủy|Hoàn tiền|Từ chối",
    "th": "ชนะ|แพ้|เจรจา|ชำระเงินแล้ว|ค้างชำระ|ยกเลิก|คืนเงิน|ปฏิเสธ",
}  # fmt: skip


@pytest.mark.parametrize("language", STAGES)
def test_stages_are_known(language):
    words = STAGES[language].split("|")
    expected = ["done", "undone", "pending", "done", "unpaid", "undone", "undone", "undone"]
    assert [class_of("status", word) for word in words] == expected
    assert [class_of("outcome", word) for word in words[:4]] == ["ended", "ended", None, None]


@pytest.fixture
def read(write):
    """Read conversions beside visits; return instants and values by id."""

    def read_conversions(text, **options):
        visits = write("visits.csv", "email,visited_at,channel\nann@x.example,2025-07-20T08:00:00Z,Search\n")
        events = read_files(visits, write("orders.csv", text), currency="EUR", **options).events
        rows = zip(
            events["event.sourceId"], events["eventDate"], events["statistics.revenue.amount"], strict=True
        )
        return {key: (f"{at:%d %b %H:%M}", value) for key, at, value in rows}

    return read_conversions


DEALS = {
    "商談ID,フェーズ,金額,メール,作成日,クローズ日": ("受注", "失注", "交渉中"),
    "거래ID,단계,금액,이메일,생성일,마감일": ("수주", "실주", "협상"),
    "Azonosító,Szakasz,Összeg,Email,Létrehozva,Lezárás dátuma": ("Megnyert", "Elvesztett", "Tárgyalás"),
    "ID,Fáze,Hodnota,E-mail,Vytvořeno,Uzavřeno": ("Vyhráno", "Prohráno", "Jednání"),
    "ID,Стадия сделки,Сумма,E-mail,Дата создания,Дата закрытия": ("Успешно реализовано", "Провал", "Новая"),
    "ID,Etapa,Importe,Correo,Fecha de creación,Fecha de cierre": ("Ganado", "Perdido", "Negociación"),
}


@pytest.mark.parametrize("header", DEALS)
def test_a_won_deal_counts_when_it_was_closed(read, header):
    won, lost, still_open = DEALS[header]
    rows = [
        f"1,{won},150.50,ann@x.example,2025-08-01 10:00,2025-09-03 08:15",
        f"2,{lost},90.25,bob@x.example,2025-08-02 10:00,2025-09-24 08:15",
        f"3,{still_open},70.00,cy@x.example,2025-08-03 10:00,",
    ]
    assert read("\n".join([header, *rows])) == {"1": ("03 Sep 08:15", 150.5)}


ORDERS = "order_id,date,email,amount,{}\n1,2025-09-03 08:15,ann@x.example,10.50,{}\n2,2025-09-24 20:00,ann@x.example,9.25,{}\n"


def test_statuses_that_nobody_knows_are_said_with_their_rows(read):
    with pytest.warns(InputWarning, match=r"blorp in 1, frumious in 1 rows.*statuses=\{'blorp': False\}"):
        assert len(read(ORDERS.format("status", "blorp", "frumious"))) == 2
    with pytest.warns(InputWarning, match="1 frumious counted"):
        assert len(read(ORDERS.format("status", "paid", "frumious"))) == 2
    assert read(ORDERS.format("status", "blorp", "frumious"), statuses={"blorp": False}).keys() == {"2"}


def test_regions_of_addresses_are_no_statuses(read, recwarn):
    assert len(read(ORDERS.format("city,state", "Austin,Texas", "Reno,Nevada"))) == 2
    assert not [each for each in recwarn if "Texas" in str(each.message)]


LINES = "Bestellnummer,Datum,E-Mail,Gesamtbetrag,Artikel,Positionsbetrag\n"


def test_the_total_that_lines_repeat_is_the_value_if_they_add_up_to_it(read):
    rows = [f"1,2025-09-03 08:15,ann@x.example,30.00,{line}" for line in ("Tasse,10.00", "Teller,20.00")]
    rows.append("2,2025-09-24 20:00,ann@x.example,5.50,Glas,5.50")
    assert read(LINES + "\n".join(rows)) == {"1": ("03 Sep 08:15", 30.0), "2": ("24 Sep 20:00", 5.5)}


@pytest.mark.parametrize("step", [1, -1])
def test_seconds_since_1970_without_a_name_rise_or_fall(read, step):
    rows = ["A-1,1756887322,ann@x.example,49.90", "A-2,1756977600,ann@x.example,12.50"]
    rows += ["A-3,1757063400,ann@x.example,8.25", "A-4,1757150999,ann@x.example,33.00"]
    with pytest.warns(InputWarning, match="c2 rises from row to row: seconds since 1970"):
        assert read("\n".join(["c1,c2,c3,c4", *rows[::step]]))["A-1"] == ("03 Sep 08:15", 49.9)


def test_digits_of_other_scripts_are_numbers(read):
    text = "رقم الطلب,التاريخ,البريد الالكتروني,الاجمالي\nA1,٢٠٢٥-٠٩-٠٣ ٠٨:١٥,ann@x.example,١٢٠٫٥٠\n"
    assert read(text) == {"A1": ("03 Sep 08:15", 120.5)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2025-09-03 오후 8:15:00", "03 Sep 20:15"),
        ("2025/9/3 下午8:15", "03 Sep 20:15"),
        ("2025年9月3日 8時15分", "03 Sep 08:15"),
        ("2025/09/03(水) 08:15", "03 Sep 08:15"),
    ],
)
def test_times_of_east_asia(read, written, expected):
    text = f"order_id,created,email,total\nA1,{written},ann@x.example,120.50\n"
    assert read(text) == {"A1": (expected, 120.5)}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *(
            (each, "unpaid")
            for each in ("Nicht erschienen", "No asistió", "Δεν προσήλθε", "לא הגיע", "Không đến")
        ),
        *((each, "undone") for each in ("No-show", "爽约", "Gelmedi", "ไม่มา", "Mødte ikke", "Krediterad")),
        *((each, "done") for each in ("Attended", "Uzavřeno", "נסגרה", "Suljettu")),
        ("Present", None),
    ],
)
def test_people_who_did_not_come_credits_and_what_is_closed(word, name):
    assert class_of("status", word) == name


def test_pending_rows_of_a_closing_date_are_open(read):
    rows_of = "1,נסגרה,150.50,ann@x.example,{0}\n2,בטיפול,90.25,bob@x.example,{0}\n".format(
        "2025-09-03 08:15"
    )
    read_with = "ID,סטטוס,סכום,Email,{}\n{}".format
    assert read(read_with("תאריך סגירה", rows_of)) == {"1": ("03 Sep 08:15", 150.5)}
    assert read(read_with("תאריך", rows_of)).keys() == {"1", "2"}


def test_names_that_all_look_pending_are_no_statuses(read):
    """Deals called new business beside a status of their own."""
    lines = "1,New roof,Won,150.50,ann@x.example,2025-09-03\n2,New door,Lost,90.25,bob@x.example,2025-09-03\n"
    assert read(f"ID,Deal,Stage,Amount,Email,Close date\n{lines}").keys() == {"1"}


def test_a_file_of_commissions_has_one_for_each_sale(read):
    header, line = "id,type,amount,email,date", "{},{},{}.5,ann@x.example,2025-09-03 08:15"
    kinds = ("Commission group transaction", "Commission group transaction")
    text = "\n".join([header, *(line.format(at, kind, at) for at, kind in enumerate(kinds))])
    assert read(text).keys() == {"0", "1"}
    # Beside sales it is a fee.
    assert read(text.replace("0,Commission group transaction", "0,Sale")).keys() == {"0"}
